#pragma once

#include <ATen/core/ivalue.h>
#include <c10/core/Stream.h>

#include <optional>
#include <string>

#include "core/runtime/engine_registry.h"
#include "core/runtime/runtime.h"
#include "core/runtime/torchtrt_engine.h"
#include "core/runtime/warnings.h"

namespace torch_tensorrt::profiles {

// What one call on an engine needs before and after it. Lives under the engine's lock.
class EngineSession {
 public:
  EngineSession(Runtime& runtime, const Engine& engine, EngineState& state, const c10::IValue& inputs,
                DeferredWarnings& warnings)
      : runtime_(runtime), engine_(engine), state_(state), inputs_(inputs), warnings_(warnings) {}

  ~EngineSession();
  EngineSession(const EngineSession&) = delete;
  EngineSession& operator=(const EngineSession&) = delete;
  EngineSession(EngineSession&&) = delete;
  EngineSession& operator=(EngineSession&&) = delete;

  void prepare();
  void finish();

 private:
  [[nodiscard]] bool context_is_lost() const;
  void restore_context();
  void select();
  void switch_profile(std::int64_t index);
  void wait_for_last_caller();

  [[nodiscard]] bool configuration_is_stale() const;
  void configure();
  void warn(const std::string& message);

  [[nodiscard]] bool is_being_captured();

  Runtime& runtime_;
  const Engine& engine_;
  EngineState& state_;
  const c10::IValue& inputs_;
  DeferredWarnings& warnings_;
  std::optional<bool> is_being_captured_;
  bool holds_auto_select_ = false;  // Torch-TensorRT's own choice by shape is off for this call
};

// Says once that an object which calls itself tensorrt.Engine is not the engine we know, and is left alone.
void warn_of_unknown_engine(DeferredWarnings& warnings);

}  // namespace torch_tensorrt::profiles
