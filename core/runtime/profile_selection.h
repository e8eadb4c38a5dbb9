#pragma once

#include <ATen/core/Dict.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "core/runtime/engine_registry.h"
#include "core/runtime/profile_ranges.h"
#include "core/runtime/profile_scope.h"
#include "core/runtime/torchtrt_engine.h"

// Which optimization profile an engine is to run on: the innermost scope of the thread that holds it, else its pin,
// else whatever index others last set on it (its base).
namespace torch_tensorrt::profiles {

struct Selection {
  enum class Why : std::uint8_t {
    kScope,          // a block says this index
    kPin,            // set_active_profile says so
    kBase,           // nobody selects: the engine is on it
    kPreferredFits,  // the block chooses by shape, and the pinned or base profile takes the shapes
    kFirstThatFits,  // ... and it does not, but this is the first declared that does
    kFallback,       // the block's index does not take the shapes, and lets the first that does run
    kTorchTensorRT,  // Torch-TensorRT's own choice by shape decides, starting from this index
    kMisfit,         // an error: the index does not take the shapes
    kGap,            // an error: no profile does
  };
  std::int64_t index = 0;
  Why why = Why::kBase;
  bool is_scoped = false;

  [[nodiscard]] bool is_error() const { return why == Why::kMisfit || why == Why::kGap; }
};

// For a call with these shapes on this thread, under the engine's lock. Shapes may be left out where nobody knows them;
// every profile fits then. `active` is what the engine is on; see note_base().
[[nodiscard]] Selection select_profile(const Engine& engine, EngineState& state, std::int64_t active,
                                       const Shapes* shapes);
// The same where scope or pin settle it, whatever the engine is on; nothing where they do not. Without a lock, for an
// engine that is known. `home` stands in for the base.
[[nodiscard]] std::optional<Selection> select_profile_without_engine(const Engine& engine, const EngineState& state,
                                                                     std::int64_t home, const Shapes* shapes);

// Takes note of what others set since our last switch.
void note_base(EngineState& state, std::int64_t active);
// The shapes of a call's inputs, where the engine's ranges are known; they stay the tensors'.
[[nodiscard]] Shapes shapes_of(const EngineState& state, const c10::IValue& inputs);

// The state of an engine. Throws for an object that is no engine of the class we know.
[[nodiscard]] EngineState& known_engine(const Engine& engine);
// The same, with its facts learned. Waits for a call that is under way only where they were not.
[[nodiscard]] EngineState& learned_engine(const Engine& engine);

// The error, or the reason, in words.
[[nodiscard]] std::string describe(const Selection& selection, const EngineState& state, const Shapes* shapes);

// What the operators do. They throw for an object that is no engine of the class we know.
void pin_profile(const Engine& engine, std::int64_t index);
void unpin_profile(const Engine& engine);
// For a block that chooses by shape: the profile that is tried first.
[[nodiscard]] std::int64_t selected_profile(const Engine& engine);
// The index, -1 for a call that would be an error, and why. No shapes: unknown.
[[nodiscard]] std::tuple<std::int64_t, std::string> explain_profile(
    const Engine& engine, const std::optional<std::vector<std::vector<std::int64_t>>>& shapes);
// What a block over these engines says. An index may be kByShape.
[[nodiscard]] ProfileChoices choices_of(const std::vector<Engine>& engines, const std::vector<std::int64_t>& indices);
[[nodiscard]] std::shared_ptr<const ProfileScope> make_profile_scope(const std::vector<Engine>& engines,
                                                                     const std::vector<std::int64_t>& indices,
                                                                     std::optional<std::int64_t> others,
                                                                     bool falls_back);
// "switches": how often we switched; "runs_<i>": calls that ran on profile i.
[[nodiscard]] c10::Dict<std::string, std::int64_t> profile_counters(const Engine& engine);

}  // namespace torch_tensorrt::profiles
