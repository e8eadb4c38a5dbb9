#include "core/runtime/runtime.h"

#include <torch/library.h>

#include "core/runtime/own_methods.h"
#include "core/runtime/profile_path.h"
#include "core/runtime/register_jit_hooks.h"

namespace torch_tensorrt::profiles {
namespace {

void check_format(const std::string& format) {
  TORCH_CHECK_VALUE(format == "perfetto" || format == "trex", "profile_format '", format,
                    "' is unknown. Use 'perfetto' or 'trex'.");
}

}  // namespace

Runtime::Runtime() {
  config_.profile_path_prefix = default_trace_folder();
}

Runtime& Runtime::instance() {
  // Leaked on purpose: engines call in during static destruction, and the dispatcher may be gone before our
  // registrations.
  static auto& runtime = *new Runtime();  // NOLINT(cppcoreguidelines-owning-memory)
  return runtime;
}

template <typename Change>
void Runtime::change(const Change& apply) {
  const std::scoped_lock lock(config_mutex_);
  apply(config_);
  generation_.store(++config_.generation, std::memory_order_release);
}

void Runtime::set_profile_execution(bool enabled) {
  change([enabled](GlobalProfilingConfig& config) { config.enabled = enabled; });
}

void Runtime::set_profile_format(const std::string& format) {
  check_format(format);
  change([&format](GlobalProfilingConfig& config) { config.profile_format = format; });
}

void Runtime::set_profile_path_prefix(const std::string& prefix) {
  const std::string folder = usable_trace_folder(prefix);
  change([&folder](GlobalProfilingConfig& config) { config.profile_path_prefix = folder; });
}

void Runtime::set_profiling_config(bool enabled, const std::string& format, const std::string& prefix) {
  check_format(format);
  const std::string folder = usable_trace_folder(prefix);
  change([&](GlobalProfilingConfig& config) {
    config.enabled = enabled;
    config.profile_format = format;
    config.profile_path_prefix = folder;
  });
}

GlobalProfilingConfig Runtime::profiling_config() const {
  const std::scoped_lock lock(config_mutex_);
  return config_;
}

void Runtime::activate() {
  const std::scoped_lock lock(activation_mutex_);
  if (!kernels_.empty()) {
    return;
  }
  auto engine_class = EngineClass::resolve();
  check_operators_are_free();
  if (engine_class_ == nullptr) {
    engine_class_ = std::move(engine_class);
  }
  define_operators();
  kernels_ = register_kernels();
  forget_own_profiling();
  engine_class_->hand_own_methods_to(&on_own_method);
}

void Runtime::deactivate() {
  const std::scoped_lock lock(activation_mutex_);
  if (engine_class_ != nullptr) {
    engine_class_->give_own_methods_back();
  }
  kernels_.clear();
}

}  // namespace torch_tensorrt::profiles
