#pragma once

#include <ATen/core/Dict.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/runtime/engine_registry.h"
#include "core/runtime/profile_selection.h"
#include "core/runtime/torchtrt_engine.h"

// An execution context per optimization profile, where it is asked for: nothing is ever switched, and calls on
// different profiles run side by side. Torch-TensorRT's engine object has one context, so each further profile gets an
// object of its own, a sibling, that runs on the first object's ICudaEngine: the weights exist once.
namespace torch_tensorrt::profiles {

struct ProfileContext {
  std::int64_t index;
  Engine engine;
  std::shared_ptr<EngineState> state;
};

// The siblings of one engine object. Owned by its state and, as long as they run, by calls.
class ProfileContexts {
 public:
  // `home`: the profile that the first object keeps.
  ProfileContexts(std::int64_t home, std::vector<ProfileContext> siblings,
                  const c10::Dict<std::string, std::int64_t>& report)
      : home_(home), siblings_(std::move(siblings)), report_(report) {}

  [[nodiscard]] std::int64_t home() const { return home_; }
  [[nodiscard]] const std::vector<ProfileContext>& siblings() const { return siblings_; }
  // Null for a profile that the first object runs.
  [[nodiscard]] const ProfileContext* at(std::int64_t index) const;
  [[nodiscard]] const c10::Dict<std::string, std::int64_t>& report() const { return report_; }

 private:
  std::int64_t home_;
  std::vector<ProfileContext> siblings_;
  c10::Dict<std::string, std::int64_t> report_;
};

// Which object runs a call, with its lock.
class ContextLock {
 public:
  // Waits for the object that runs the profile which this thread asks for, else for the first.
  ContextLock(const Engine& first, EngineState& state, const c10::IValue& inputs);

  [[nodiscard]] const Engine& engine() const { return sibling_ != nullptr ? sibling_->engine : first_; }
  [[nodiscard]] EngineState& state() const { return sibling_ != nullptr ? *sibling_->state : first_state_; }
  [[nodiscard]] bool is_sibling() const { return sibling_ != nullptr; }
  // What was asked for, where that is settled already.
  [[nodiscard]] const Selection* selection() const { return selection_ ? &*selection_ : nullptr; }

 private:
  void choose(const c10::IValue& inputs);
  void mirror_output_modes() const;

  const Engine& first_;
  EngineState& first_state_;
  std::shared_ptr<const ProfileContexts> contexts_;  // dies after the lock
  std::optional<Selection> selection_;
  const ProfileContext* sibling_ = nullptr;
  std::unique_lock<std::mutex> lock_;
};

// Under the first object's lock; takes each sibling's.
void for_each_sibling(const EngineState& state, const std::function<void(const Engine&, EngineState&)>& visit);

// Makes the siblings, or counts one more use of them. An engine with one profile is left alone. Throws, with everything
// as it was, where they cannot be had. Returns "contexts" (siblings there are), "home", and where they were made
// "plan_bytes"; where the device tells, what they took of its memory for good ("device_bytes") and, with the second
// copy of the weights that is there while one is made, at most ("peak_device_bytes"), whoever else used it meanwhile
// included.
[[nodiscard]] c10::Dict<std::string, std::int64_t> make_profile_contexts(const Engine& engine);
// Ends one use; with the last, the siblings go. Does nothing for an engine that has none.
void drop_profile_contexts(const Engine& engine);

}  // namespace torch_tensorrt::profiles
