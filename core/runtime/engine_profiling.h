#pragma once

#include "core/runtime/engine_registry.h"
#include "core/runtime/runtime.h"
#include "core/runtime/torchtrt_engine.h"

namespace torch_tensorrt::profiles {

// The profiler of one engine, between the process-wide switch and the engine's owner. An engine that its owner profiles
// is only borrowed by the switch, with its profiler and its counters. Lives under the engine's lock.
class EngineProfiling {
 public:
  EngineProfiling(Runtime& runtime, const Engine& engine, EngineState& state)
      : runtime_(runtime), engine_(engine), state_(state) {}

  // Does what the configuration says. Suspended: it is enabled, but the calling thread must not profile. Throws where
  // there is no place for the traces.
  void apply(const GlobalProfilingConfig& config, bool suspended);
  // The context is a new one: gives it a profiler if the last one had one.
  void restore();

  // The owner's own methods have just done this to the engine.
  void on_own_enable();
  void on_own_disable();
  void on_own_format(const std::string& format);

 private:
  void start(const GlobalProfilingConfig& config);
  void stop();
  void set_format(const std::string& format);
  void take_folder(const GlobalProfilingConfig& config);
  void leave_folder();

  Runtime& runtime_;
  const Engine& engine_;
  EngineState& state_;
};

}  // namespace torch_tensorrt::profiles
