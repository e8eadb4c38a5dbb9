#include "core/runtime/profile_selection.h"

#include <c10/util/Exception.h>

#include "core/runtime/profile_scope.h"

namespace torch_tensorrt::profiles {
namespace {

EngineState& known(const Engine& engine) {
  EngineState* const state = EngineRegistry::instance().of(engine);
  TORCH_CHECK(
      state != nullptr,
      "torch-tensorrt-profiles: this engine is not of the class that Torch-TensorRT 2.14 has, so its profile cannot be "
      "selected. Install torch-tensorrt-rtx or torch-tensorrt 2.14.");
  return *state;
}

// Under the engine's lock.
void check_index(const Engine& engine, EngineState& state, std::int64_t index) {
  state.learn(engine);
  TORCH_CHECK_INDEX(index >= 0 && index < state.profile_count, "optimization profile ", index,
                    " is out of range: engine '", state.identity.name, "' has ", state.profile_count,
                    state.profile_count == 1 ? " profile, index 0." : " profiles, indices 0 to ",
                    state.profile_count == 1 ? "" : std::to_string(state.profile_count - 1) + ".");
  TORCH_CHECK(
      index == 0 || engine.has_native_members(), "optimization profile ", index, " of engine '", state.identity.name,
      "' cannot be selected: this build of Torch-TensorRT does not export what tells whether the engine's context was "
      "rebuilt, so the call might run on profile 0 unnoticed. Install the torch-tensorrt-rtx or torch-tensorrt wheel.");
}

}  // namespace

Selection select_profile(EngineState& state, std::int64_t active) {
  if (state.switched_to != active) {
    state.base = active;  // not where we left it
    state.switched_to.reset();
  }
  if (const auto scoped = scoped_profile(state)) {
    return {*scoped, true};
  }
  return {state.pin.value_or(state.base), false};
}

void pin_profile(const Engine& engine, std::int64_t index) {
  EngineState& state = known(engine);
  const std::scoped_lock lock(state.mutex);
  check_index(engine, state, index);
  state.pin = index;
}

void unpin_profile(const Engine& engine) {
  EngineState& state = known(engine);
  const std::scoped_lock lock(state.mutex);
  state.pin.reset();
}

std::int64_t selected_profile(const Engine& engine) {
  EngineState& state = known(engine);
  const std::scoped_lock lock(state.mutex);
  return select_profile(state, engine.active_profile_index()).index;
}

std::int64_t push_profile_scope_over(const std::vector<Engine>& engines, const std::vector<std::int64_t>& indices) {
  TORCH_CHECK_VALUE(engines.size() == indices.size(), "_push_profile_scope: ", engines.size(), " engines but ",
                    indices.size(), " indices. Give one index per engine.");
  std::vector<ProfileChoice> choices;
  choices.reserve(engines.size());
  for (std::size_t i = 0; i < engines.size(); ++i) {
    EngineState& state = known(engines[i]);
    {
      const std::scoped_lock lock(state.mutex);
      check_index(engines[i], state, indices[i]);
    }
    choices.push_back({state.weak_from_this(), indices[i]});
  }
  return push_profile_scope(choices);
}

c10::Dict<std::string, std::int64_t> profile_counters(const Engine& engine) {
  EngineState& state = known(engine);
  const std::scoped_lock lock(state.mutex);
  state.learn(engine);
  const c10::Dict<std::string, std::int64_t> counters;  // a handle: what it names is filled below
  counters.insert("switches", state.switches);
  for (std::size_t i = 0; i < state.runs.size(); ++i) {
    counters.insert("runs_" + std::to_string(i), state.runs[i]);
  }
  return counters;
}

}  // namespace torch_tensorrt::profiles
