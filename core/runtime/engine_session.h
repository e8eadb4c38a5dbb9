#pragma once

#include <ATen/core/ivalue.h>
#include <c10/core/Stream.h>
#include <c10/util/Exception.h>

#include <optional>
#include <string>

#include "core/runtime/engine_registry.h"
#include "core/runtime/profile_selection.h"
#include "core/runtime/runtime.h"
#include "core/runtime/torchtrt_engine.h"
#include "core/runtime/warnings.h"

namespace torch_tensorrt::profiles {

// What one call on an engine needs before and after it. Lives under the engine's lock.
class EngineSession {
 public:
  // `called` is the engine that the program named, whose sibling `engine` may be; `selection` what it is to run, where
  // that is settled already.
  EngineSession(Runtime& runtime, const Engine& engine, EngineState& state, const EngineState& called,
                const Selection* selection, const c10::IValue& inputs, DeferredWarnings& warnings)
      : runtime_(runtime),
        engine_(engine),
        state_(state),
        called_(called),
        settled_(selection),
        inputs_(inputs),
        warnings_(warnings) {}

  ~EngineSession();
  EngineSession(const EngineSession&) = delete;
  EngineSession& operator=(const EngineSession&) = delete;
  EngineSession(EngineSession&&) = delete;
  EngineSession& operator=(EngineSession&&) = delete;

  void prepare();
  // The call itself. What it throws says which profile the engine was on.
  template <typename Call>
  void run(const Call& call_through) {
    state_.has_failed = true;  // until finish()
    try {
      call_through();
    } catch (c10::Error& error) {
      if (state_.profile_count > 1) {
        error.add_context(whereabouts());
      }
      throw;
    } catch (const std::exception& error) {
      if (state_.profile_count > 1) {
        add_whereabouts_and_throw(error);
      }
      throw;
    }
  }
  void finish();

 private:
  [[nodiscard]] bool context_is_lost() const;
  void restore_context();
  void select();
  void set_auto_select(bool enabled);
  [[nodiscard]] std::string whereabouts() const;
  void add_whereabouts_and_throw(const std::exception& error) const;
  void switch_profile(std::int64_t active, std::int64_t index);
  void set_profile(std::int64_t index);
  void hop(std::int64_t index);  // away from the profile and back to it
  void wait_for_last_caller();

  [[nodiscard]] bool configuration_is_stale() const;
  void configure();
  void warn(const std::string& message);

  [[nodiscard]] bool is_being_captured();

  Runtime& runtime_;
  const Engine& engine_;
  EngineState& state_;
  const EngineState& called_;
  const Selection* settled_;
  const c10::IValue& inputs_;
  DeferredWarnings& warnings_;
  std::optional<bool> is_being_captured_;
  std::int64_t index_ = 0;                  // the profile that the call runs on, unless Torch-TensorRT chooses another
  bool may_leave_index_ = false;            // it may
  bool borrows_auto_select_ = false;        // Torch-TensorRT's own choice by shape is on for this call only
  std::optional<bool> auto_select_before_;  // what it was, where this call changed it
};

// Says once that an object which calls itself tensorrt.Engine is not the engine we know, and is left alone.
void warn_of_unknown_engine(DeferredWarnings& warnings);

}  // namespace torch_tensorrt::profiles
