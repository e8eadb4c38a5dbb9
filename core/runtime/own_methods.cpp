#include "core/runtime/own_methods.h"

#include "core/runtime/engine_profiling.h"
#include "core/runtime/engine_registry.h"
#include "core/runtime/profile_contexts.h"
#include "core/runtime/profile_selection.h"
#include "core/runtime/runtime.h"

namespace torch_tensorrt::profiles {

void on_own_method(EngineClass::OwnMethod method, const Engine& engine, const std::vector<c10::IValue>& arguments,
                   const std::function<void()>& call_through) {
  EngineState* const state = EngineRegistry::instance().of(engine);
  if (state == nullptr) {
    call_through();
    return;
  }
  std::vector<c10::IValue> settings = arguments;  // the old ones die after the lock
  const std::scoped_lock lock(state->mutex);
  call_through();
  EngineProfiling profiling(Runtime::instance(), engine, *state);
  switch (method) {
    case EngineClass::OwnMethod::kEnableProfiling:
      profiling.on_own_enable();
      break;
    case EngineClass::OwnMethod::kDisableProfiling:
      profiling.on_own_disable();
      break;
    case EngineClass::OwnMethod::kSetProfileFormat:
      profiling.on_own_format(arguments.at(0).toStringRef());
      break;
    case EngineClass::OwnMethod::kUpdateRuntimeSettings:
      state->runtime_settings.swap(settings);
      for_each_sibling(
          *state, [&arguments](const Engine& sibling, EngineState&) { sibling.update_runtime_settings(arguments); });
      break;
    case EngineClass::OwnMethod::kUseDynamicallyAllocatedResources:
      for_each_sibling(*state, [&arguments](const Engine& sibling, EngineState&) {
        sibling.use_dynamically_allocated_resources(arguments);
      });
      break;
    case EngineClass::OwnMethod::kSetActiveProfile:
      state->base = arguments.at(0).toInt();  // also where a block of ours had left it there already
      state->switched_to.reset();
      break;
  }
}

std::vector<c10::IValue> runtime_settings(const Engine& engine) {
  EngineState& state = learned_engine(engine);
  const std::scoped_lock lock(state.mutex);
  return state.runtime_settings;
}

void forget_own_profiling() {
  for (const auto& [address, state] : EngineRegistry::instance().live()) {
    const std::scoped_lock lock(state->mutex);
    state->is_profiled_by_owner = false;
    state->declined_generation.reset();
  }
}

}  // namespace torch_tensorrt::profiles
