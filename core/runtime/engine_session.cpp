#include "core/runtime/engine_session.h"

#include <c10/core/Event.h>
#include <c10/util/Exception.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <atomic>
#include <cstring>
#include <typeinfo>

#include "core/runtime/cuda_streams.h"
#include "core/runtime/engine_profiling.h"
#include "core/runtime/trace_files.h"

namespace torch_tensorrt::profiles {
namespace {

// Torch-TensorRT's phase traces come from a profiler of torch that cannot run inside another one.
bool is_under_torch_profiler() {
  return c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::PROFILER_STATE) != nullptr;
}

}  // namespace

EngineSession::~EngineSession() {
  if (!auto_select_before_) {
    return;
  }
  try {
    engine_.set_auto_select_profiles(*auto_select_before_);
    if (borrows_auto_select_) {  // where it left the engine is our doing, not a new base
      const std::int64_t active = engine_.active_profile_index();
      state_.switched_to = active == state_.base ? std::nullopt : std::optional(active);
    }
  } catch (const std::exception& error) {
    warnings_.add(std::string("torch-tensorrt-profiles: automatic profile selection is not as it was: ") +
                  error.what());
  }
}

void EngineSession::prepare() {
  if (!state_.is_known) {
    state_.learn(engine_);
  }
  if (has_cuda()) {
    wait_for_last_caller();
  }
  if (context_is_lost()) {
    if (!is_being_captured()) {
      restore_context();
    } else {
      TORCH_CHECK(state_.profile_count == 1 || engine_.active_profile_index() == 0,
                  "tensorrt::execute_engine: engine '", state_.identity.name,
                  "' lost its execution context and must switch to optimization profile ",
                  engine_.active_profile_index(),
                  " again, which cannot be done while a CUDA stream is capturing. Run it once before capturing.");
    }
  }
  if (configuration_is_stale() && !is_being_captured()) {
    configure();
    if (context_is_lost()) {
      restore_context();
    }
  }
  if (state_.profile_count > 1 || state_.ranges.are_known()) {
    select();
  }
}

void EngineSession::add_whereabouts_and_throw(const std::exception& error) const {
  // Torch-TensorRT's own errors only: others, such as a Python plugin's, must stay of the type they are.
  TORCH_CHECK(std::strstr(typeid(error).name(), "torch_tensorrt") == nullptr, error.what(), "\n", whereabouts());
}

std::string EngineSession::whereabouts() const {
  const std::int64_t index = may_leave_index_ ? engine_.active_profile_index() : index_;
  return "Engine '" + state_.identity.name + "' was to run on optimization profile " + state_.ranges.title(index) +
         " of " + std::to_string(state_.profile_count) + ".";
}

void EngineSession::finish() {
  state_.has_failed = false;
  const std::int64_t index = may_leave_index_ ? engine_.active_profile_index() : index_;
  ++state_.runs.at(static_cast<std::size_t>(index));
  if (!state_.has_profiler()) {
    return;
  }
  try {
    const TraceOwner owner{engine_.profile_path_prefix(), state_.identity.name, state_.track};
    if (state_.is_profiled) {
      state_.timings.add_call(index, rewrite_traces(owner).layers);
    } else {
      state_.timings.skip_call(index, read_layers(owner).layers);  // the switch may borrow this profiler later
    }
  } catch (const std::exception& error) {
    warn(std::string("its traces are incomplete: ") + error.what());
  }
}

bool EngineSession::context_is_lost() const {
  // Without profiles, a profiler, a communicator or a captured graph, a context has nothing on it that could be lost.
  const bool carries_something =
      state_.profile_count > 1 || state_.has_profiler() || state_.is_multidevice || engine_.captures_subgraphs();
  return !engine_.has_context() || (carries_something && engine_.contexts_created() != state_.contexts_seen);
}

void EngineSession::select() {
  if (settled_ == nullptr && !state_.ranges.are_known() && !state_.pin.get() && !state_.switched_to &&
      !scoped_profile(state_)) {
    may_leave_index_ = true;  // nothing to select and nothing to check: finish() sees where the engine is
    return;
  }
  const Shapes shapes = shapes_of(state_, inputs_);
  const std::int64_t active = state_.profile_count > 1 ? engine_.active_profile_index() : 0;
  if (settled_ != nullptr) {
    note_base(state_, active);
  }
  const Selection selection = settled_ != nullptr ? *settled_ : select_profile(engine_, state_, active, &shapes);
  TORCH_CHECK_VALUE(!selection.is_error(), "tensorrt::execute_engine: engine '", state_.identity.name,
                    "': ", describe(selection, called_, &shapes));
  index_ = selection.index;
  if (state_.profile_count == 1) {
    return;
  }
  const bool lets_torchtrt_choose = selection.why == Selection::Why::kTorchTensorRT;
  // Where the ranges are known, the profile takes the shapes, and then Torch-TensorRT would not choose another either.
  may_leave_index_ = lets_torchtrt_choose || !(selection.is_scoped || state_.ranges.are_known());
  if (selection.is_scoped) {
    set_auto_select(lets_torchtrt_choose);
    borrows_auto_select_ = lets_torchtrt_choose;
  }
  if (selection.why == Selection::Why::kFallback && is_first_fallback(called_)) {
    warnings_.add("torch-tensorrt-profiles: engine '" + state_.identity.name +
                  "': " + describe(selection, called_, &shapes) + " (Said once per block.)");
  }
  if (selection.index != active) {
    switch_profile(active, selection.index);
  } else if (lets_torchtrt_choose && state_.has_failed && !is_being_captured()) {
    // It looks only at shapes that differ from the last call's, and takes those of a failed call as seen.
    const auto guard = on_cuda_device(state_.identity.device);
    hop(active);
  }
}

void EngineSession::switch_profile(std::int64_t active, std::int64_t index) {
  TORCH_CHECK(
      !is_being_captured(), "tensorrt::execute_engine: engine '", state_.identity.name, "' is on optimization profile ",
      state_.ranges.title(active), " and must switch to ", state_.ranges.title(index),
      ", which cannot be done while a CUDA stream is capturing. Enter the profile and run once before capturing.");
  const auto guard = on_cuda_device(state_.identity.device);
  set_profile(index);
  ++state_.switches;
  state_.switched_to = index == state_.base ? std::nullopt : std::optional(index);
}

void EngineSession::set_auto_select(bool enabled) {
  if (engine_.auto_select_profiles() != enabled) {
    engine_.set_auto_select_profiles(enabled);
    auto_select_before_ = !enabled;
  }
}

void EngineSession::wait_for_last_caller() {
  const auto stream = current_cuda_stream(cuda_device_of(inputs_));
  if (stream == state_.last_stream) {
    return;
  }
  // Torch-TensorRT orders its own stream after this call's only, but the context's memory may still be in use by the
  // last call's. A stream that is being captured can wait for none outside of its capture, and the other way round.
  if (stream && state_.last_stream && !is_capturing(stream) && !is_capturing(state_.last_stream)) {
    c10::Event event(c10::DeviceType::CUDA);
    event.record(*state_.last_stream);
    event.block(*stream);
  }
  state_.last_stream = stream;
}

void EngineSession::set_profile(std::int64_t index) {
  const auto stream = current_cuda_stream(state_.identity.device);
  engine_.set_active_profile(index, stream ? &*stream : nullptr);
}

void EngineSession::hop(std::int64_t index) {
  set_profile(index == 0 ? 1 : 0);
  set_profile(index);
}

void EngineSession::restore_context() {
  const auto guard = on_cuda_device(state_.identity.device);
  const bool had_context = engine_.has_context();
  const std::int64_t created = engine_.contexts_created();
  if (state_.contexts_seen < 0 && had_context && created == 1) {
    state_.contexts_seen = created;  // we see the engine for the first time, on its first context: nothing was lost
    return;
  }
  const bool was_used = created > 0;
  const std::int64_t index = state_.profile_count > 1 ? engine_.active_profile_index() : 0;

  const bool may_replay = was_used && engine_.captures_subgraphs();
  if (may_replay && state_.profile_count == 1) {
    engine_.forget_captured_graph();
  }
  engine_.make_context();
  // A new context is on profile 0, whatever the engine's index says, and setting that index again does nothing: hence
  // the hop. A switch also makes Torch-TensorRT capture its CUDA graph anew.
  if (index != 0 || (may_replay && state_.profile_count > 1)) {
    hop(index);
  }
  EngineProfiling(runtime_, engine_, state_).restore();
  if (state_.is_multidevice && engine_.nccl_initialized()) {
    engine_.bind_nccl_comm();
  }
  if (was_used) {
    engine_.reset_captured_graph();
  }
  state_.contexts_seen = engine_.contexts_created();
}

bool EngineSession::configuration_is_stale() const {
  return state_.applied_generation != runtime_.generation() || state_.format_is_due ||
         (state_.is_switched_on && state_.is_suspended != is_under_torch_profiler());
}

void EngineSession::configure() {
  const GlobalProfilingConfig config = runtime_.profiling_config();
  const bool suspended = config.enabled && is_under_torch_profiler();
  const auto guard = on_cuda_device(state_.identity.device);
  try {
    EngineProfiling(runtime_, engine_, state_).apply(config, suspended);
  } catch (const std::exception& error) {
    state_.applied_generation = config.generation;
    warn(std::string("it runs without: ") + error.what());
  }
  state_.applied_generation = config.generation;
  state_.is_switched_on = config.enabled;
  state_.is_suspended = suspended;
}

void EngineSession::warn(const std::string& message) {
  if (state_.warned_generation != state_.applied_generation) {
    state_.warned_generation = state_.applied_generation;
    warnings_.add("torch-tensorrt-profiles: engine '" + state_.identity.name + "' is to be profiled, but " + message);
  }
}

bool EngineSession::is_being_captured() {
  if (!is_being_captured_) {
    is_being_captured_ = is_capturing(current_cuda_stream(cuda_device_of(inputs_)));
  }
  return *is_being_captured_;
}

void warn_of_unknown_engine(DeferredWarnings& warnings) {
  static std::atomic<bool> warned{false};
  if (!warned.exchange(true)) {
    warnings.add(
        "torch-tensorrt-profiles: an engine is not of the class that Torch-TensorRT 2.14 has, so it runs as without "
        "this "
        "package: not profiled, and on whatever optimization profile it is set to. Install torch-tensorrt-rtx or "
        "torch-tensorrt 2.14.");
  }
}

}  // namespace torch_tensorrt::profiles
