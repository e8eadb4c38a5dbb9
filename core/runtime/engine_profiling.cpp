#include "core/runtime/engine_profiling.h"

#include <cstdlib>
#include <optional>

namespace torch_tensorrt::profiles {
namespace {

std::optional<std::int64_t> number_in_environment(const char* name) {
  const char* text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody should set it while engines run
  char* end = nullptr;
  const std::int64_t value = text == nullptr ? 0 : std::strtoll(text, &end, 10);
  return text != nullptr && end != text && *end == '\0' ? std::optional(value) : std::nullopt;
}

// The rank that traces are marked with: a launcher's (RANK, with WORLD_SIZE above one where it is set), else that of
// the process group which the engine talks to.
std::optional<std::int64_t> rank_of(const Engine& engine) {
  const auto rank = number_in_environment("RANK");
  if (rank && number_in_environment("WORLD_SIZE").value_or(2) > 1) {
    return rank;
  }
  return engine.world_size() > 1 ? std::optional(engine.rank()) : std::nullopt;
}

}  // namespace

void EngineProfiling::apply(const GlobalProfilingConfig& config, bool suspended) {
  if (!config.enabled) {
    stop();
    leave_folder();
  } else if (suspended) {
    if (!state_.is_profiled_by_owner) {
      stop();
    }
  } else if (state_.is_profiled || state_.declined_generation != config.generation) {
    if (state_.is_profiled) {
      take_folder(config);
      set_format(config.profile_format);
    } else {
      start(config);
    }
    runtime_.trace_layout().record(config.profile_path_prefix,
                                   {state_.identity.name, reinterpret_cast<std::uintptr_t>(engine_.address()),
                                    state_.identity.device, state_.claim->folder(), state_.format, rank_of(engine_),
                                    state_.identity.profile_names(), state_.context_title()});
  }
}

void EngineProfiling::restore() {
  if (!state_.has_profiler()) {
    return;
  }
  engine_.enable_profiling();
  state_.timings.on_new_profiler();
  engine_.set_profile_format(state_.is_profiled ? state_.format : state_.own_format);
  state_.format_is_due = false;
}

void EngineProfiling::on_own_enable() {
  state_.is_profiled_by_owner = true;
  state_.timings.on_new_profiler();
  on_own_format("perfetto");  // what Torch-TensorRT's profilers begin with
}

void EngineProfiling::on_own_disable() {
  state_.is_profiled_by_owner = false;
  state_.is_profiled = false;
  state_.format_is_due = false;
  state_.declined_generation = runtime_.generation();
  leave_folder();
}

void EngineProfiling::on_own_format(const std::string& format) {
  state_.own_format = format;
  state_.format_is_due = state_.is_profiled;
}

void EngineProfiling::start(const GlobalProfilingConfig& config) {
  take_folder(config);
  if (!state_.is_switched_on) {
    state_.timings.clear();
  }
  if (!state_.is_profiled_by_owner) {
    engine_.enable_profiling();
    state_.timings.on_new_profiler();
    state_.contexts_seen = engine_.contexts_created();
  }
  state_.is_profiled = true;
  state_.format_is_due = true;
  set_format(config.profile_format);
}

void EngineProfiling::stop() {
  if (!state_.is_profiled) {
    return;
  }
  if (state_.is_profiled_by_owner) {
    set_format(state_.own_format);
  } else {
    engine_.disable_profiling();
  }
  state_.is_profiled = false;
  state_.format_is_due = false;
}

void EngineProfiling::set_format(const std::string& format) {
  if (state_.format_is_due || state_.format != format) {
    engine_.set_profile_format(format);
    state_.format = format;
    state_.format_is_due = false;
  }
}

void EngineProfiling::take_folder(const GlobalProfilingConfig& config) {
  const bool has_claim = state_.claim != nullptr;
  std::unique_ptr<TraceClaim> fresh;
  if (!has_claim || state_.claim->prefix() != config.profile_path_prefix) {
    fresh = runtime_.trace_layout().claim(config.profile_path_prefix, state_.identity.name, rank_of(engine_),
                                          state_.is_sibling ? state_.context_title() : std::string());
  }
  const std::string current = engine_.profile_path_prefix();
  if (!has_claim || current != state_.claim->folder()) {
    state_.own_path_prefix = current;  // the owner's, which it may have set in the meantime
  }
  if (fresh != nullptr) {
    state_.claim = std::move(fresh);
  }
  if (current != state_.claim->folder()) {
    engine_.set_profile_path_prefix(state_.claim->folder());
  }
}

void EngineProfiling::leave_folder() {
  if (state_.claim == nullptr) {
    return;
  }
  if (engine_.profile_path_prefix() == state_.claim->folder()) {
    engine_.set_profile_path_prefix(state_.own_path_prefix);
  }
  state_.claim.reset();
}

}  // namespace torch_tensorrt::profiles
