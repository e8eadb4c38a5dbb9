#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/runtime/torchtrt_engine.h"
#include "core/runtime/trace_layout.h"

namespace torch {
class Library;
}

namespace torch_tensorrt::profiles {

// What every engine of the process is profiled like.
struct GlobalProfilingConfig {
  bool enabled = false;
  std::string profile_format = "perfetto";
  std::string profile_path_prefix;
  std::uint64_t generation = 0;  // number of changes so far
};

// All process-wide state but the registry of engines.
class Runtime {
 public:
  static Runtime& instance();

  // Each setter makes one change and adds one to the generation, also where the value stays the same. A bad value
  // throws ValueError and changes nothing.
  void set_profile_execution(bool enabled);
  void set_profile_format(const std::string& format);
  void set_profile_path_prefix(const std::string& prefix);
  void set_profiling_config(bool enabled, const std::string& format, const std::string& prefix);
  // All fields of one generation.
  [[nodiscard]] GlobalProfilingConfig profiling_config() const;
  [[nodiscard]] std::uint64_t generation() const noexcept { return generation_.load(std::memory_order_acquire); }

  // Registers our operators and kernels, and takes note of what engines are asked for by their own profiling methods;
  // throws, having changed nothing, where Torch-TensorRT is not there or another
  // copy of this library is active. Activating twice is one activation.
  void activate();
  // Takes the kernels and methods back; the operators then raise. No call may be under way. What engines are set to
  // stays as it is: one that the switch profiles goes on writing its traces, as if its own enable_profiling() had been
  // called. Their state stays too, so that activating again picks up where we were; only what their owners asked for is
  // unknown then.
  void deactivate();
  // Valid once activated, and from then on.
  [[nodiscard]] const EngineClass& engine_class() const noexcept { return *engine_class_; }

  [[nodiscard]] TraceLayout& trace_layout() noexcept { return trace_layout_; }

 private:
  Runtime();
  template <typename Change>
  void change(const Change& apply);

  mutable std::mutex config_mutex_;  // taken after an engine's mutex (see EngineState), never before
  GlobalProfilingConfig config_;
  std::atomic<std::uint64_t> generation_{0};

  std::mutex activation_mutex_;  // the outermost: nothing of ours is held when it is taken
  std::vector<std::unique_ptr<torch::Library>> kernels_;
  std::unique_ptr<EngineClass> engine_class_;

  TraceLayout trace_layout_;
};

}  // namespace torch_tensorrt::profiles
