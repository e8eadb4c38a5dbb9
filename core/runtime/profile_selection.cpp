#include "core/runtime/profile_selection.h"

#include <c10/util/Exception.h>

#include "core/runtime/profile_contexts.h"

namespace torch_tensorrt::profiles {
namespace {

// For an engine that is known.
void check_index(const Engine& engine, const EngineState& state, std::int64_t index) {
  TORCH_CHECK_INDEX(index >= 0 && index < state.profile_count, "optimization profile ", index,
                    " is out of range: engine '", state.identity.name, "' has ", state.profile_count,
                    state.profile_count == 1 ? " profile, index 0." : " profiles, indices 0 to ",
                    state.profile_count == 1 ? "" : std::to_string(state.profile_count - 1) + ".");
  TORCH_CHECK(
      index == 0 || engine.has_native_members(), "optimization profile ", index, " of engine '", state.identity.name,
      "' cannot be selected: this build of Torch-TensorRT does not export what tells whether the engine's context was "
      "rebuilt, so the call might run on profile 0 unnoticed. Install the torch-tensorrt-rtx or torch-tensorrt wheel.");
}

// `base` is what runs where neither scope nor pin says anything, `active` what the engine is on.
Selection resolve(const Engine& engine, const EngineState& state, std::int64_t base, std::int64_t active,
                  const Shapes* shapes) {
  using Why = Selection::Why;
  const auto scope = scoped_profile(state);
  const auto pin = state.pin.get();
  const std::int64_t preferred = pin.value_or(base);
  Selection selection{preferred, pin ? Why::kPin : Why::kBase, scope.has_value()};
  const bool chooses = scope && scope->index == kByShape;
  if (chooses) {
    selection.why = state.ranges.are_known() ? Why::kPreferredFits : Why::kTorchTensorRT;
    selection.index = state.ranges.are_known() ? preferred : active;  // it starts from where the engine is
  } else if (scope && state.profile_count > 1) {  // an engine with one profile has nothing to select
    check_index(engine, state, scope->index);
    selection.index = scope->index;
    selection.why = Why::kScope;
  }
  if (shapes == nullptr || !state.ranges.are_known() || state.ranges.fit(selection.index, *shapes)) {
    return selection;
  }
  const auto fitting = state.ranges.first_that_fits(*shapes);
  const bool may_choose = chooses || (scope && scope->falls_back);
  const bool torchtrt_chooses = !scope && state.profile_count > 1 && engine.auto_select_profiles();
  if (!fitting) {
    selection.why = may_choose || torchtrt_chooses ? Why::kGap : Why::kMisfit;
  } else if (may_choose) {
    selection.index = *fitting;
    selection.why = chooses ? Why::kFirstThatFits : Why::kFallback;
  } else {
    selection.why = torchtrt_chooses ? Why::kTorchTensorRT : Why::kMisfit;
  }
  return selection;
}

std::tuple<Selection, std::string> selection_on_this_thread(const Engine& engine, const Shapes* shapes) {
  EngineState& state = learned_engine(engine);
  if (const auto contexts = state.contexts.get()) {
    if (const auto settled = select_profile_without_engine(engine, state, contexts->home(), shapes)) {
      return {*settled, describe(*settled, state, shapes)};
    }
  }
  const std::scoped_lock lock(state.mutex);
  const Selection selection = select_profile(engine, state, engine.active_profile_index(), shapes);
  return {selection, describe(selection, state, shapes)};
}

}  // namespace

EngineState& known_engine(const Engine& engine) {
  EngineState* const state = EngineRegistry::instance().of(engine);
  TORCH_CHECK(
      state != nullptr,
      "torch-tensorrt-profiles: this engine is not of the class that Torch-TensorRT 2.14 has, so its profiles are not "
      "known. Install torch-tensorrt-rtx or torch-tensorrt 2.14.");
  return *state;
}

EngineState& learned_engine(const Engine& engine) {
  EngineState& state = known_engine(engine);
  if (!state.is_known) {
    const std::scoped_lock lock(state.mutex);
    state.learn(engine);
  }
  return state;
}

void note_base(EngineState& state, std::int64_t active) {
  if (state.switched_to != active) {
    state.base = active;  // not where we left it
    state.switched_to.reset();
  }
}

Shapes shapes_of(const EngineState& state, const c10::IValue& inputs) {
  Shapes shapes;
  if (state.ranges.are_known()) {
    for (const c10::IValue& input : inputs.toListRef()) {
      shapes.push_back(input.toTensor().defined() ? input.toTensor().sizes() : c10::IntArrayRef());
    }
  }
  return shapes;
}

Selection select_profile(const Engine& engine, EngineState& state, std::int64_t active, const Shapes* shapes) {
  note_base(state, active);
  return resolve(engine, state, state.base, active, shapes);
}

std::optional<Selection> select_profile_without_engine(const Engine& engine, const EngineState& state,
                                                       std::int64_t home, const Shapes* shapes) {
  const auto scope = scoped_profile(state);
  const auto pin = state.pin.get();
  if (scope ? scope->index == kByShape && !state.ranges.are_known() : !pin) {
    return std::nullopt;
  }
  if (!scope && shapes != nullptr && state.ranges.are_known() && !state.ranges.fit(*pin, *shapes)) {
    return std::nullopt;  // Torch-TensorRT's own choice may be on
  }
  return resolve(engine, state, home, home, shapes);
}

std::string describe(const Selection& selection, const EngineState& state, const Shapes* shapes) {
  std::string title = "optimization profile " + state.ranges.title(selection.index);
  switch (selection.why) {
    case Selection::Why::kScope:
      return title + " is what the innermost optimization_profile() block of this thread says";
    case Selection::Why::kPin:
      return title + " is pinned by set_active_profile";
    case Selection::Why::kBase:
      return title + " is what the engine is set to; no block and no pin selects another";
    case Selection::Why::kPreferredFits:
      return title + " is the " + (state.pin.get() ? "pinned one" : "one that the engine is set to") +
             ", and takes the shapes; the block chooses by shape";
    case Selection::Why::kFirstThatFits:
      return title + " is the first declared that takes the shapes; the block chooses by shape";
    case Selection::Why::kFallback:
      return title + " is the first that takes the shapes; the block's own does not, and lets another run";
    case Selection::Why::kTorchTensorRT:
      return "Torch-TensorRT chooses by shape: " + title + " if it takes the shapes, else the first that does";
    case Selection::Why::kMisfit:
      return state.ranges.misfit(selection.index, *shapes);
    case Selection::Why::kGap:
      return state.ranges.gap(*shapes);
  }
  return title;
}

void pin_profile(const Engine& engine, std::int64_t index) {
  EngineState& state = learned_engine(engine);
  check_index(engine, state, index);
  state.pin.set(index);
}

void unpin_profile(const Engine& engine) {
  known_engine(engine).pin.set(std::nullopt);
}

std::int64_t selected_profile(const Engine& engine) {
  return std::get<0>(selection_on_this_thread(engine, nullptr)).index;
}

std::tuple<std::int64_t, std::string> explain_profile(
    const Engine& engine, const std::optional<std::vector<std::vector<std::int64_t>>>& shapes) {
  const auto explained = [&engine](const Shapes* given) -> std::tuple<std::int64_t, std::string> {
    const auto [selection, why] = selection_on_this_thread(engine, given);
    return {selection.is_error() ? -1 : selection.index, why};
  };
  if (!shapes) {
    return explained(nullptr);
  }
  Shapes views;
  for (const auto& shape : *shapes) {
    views.push_back(shape);
  }
  return explained(&views);
}

ProfileChoices choices_of(const std::vector<Engine>& engines, const std::vector<std::int64_t>& indices) {
  TORCH_CHECK_VALUE(engines.size() == indices.size(), "optimization_profile: ", engines.size(), " engines but ",
                    indices.size(), " indices. Give one index per engine.");
  ProfileChoices choices;
  for (std::size_t i = 0; i < engines.size(); ++i) {
    EngineState& state = learned_engine(engines[i]);
    if (indices[i] != kByShape) {
      check_index(engines[i], state, indices[i]);
    }
    choices.insert_or_assign(&state, ProfileChoice{state.weak_from_this(), indices[i]});
  }
  return choices;
}

std::shared_ptr<const ProfileScope> make_profile_scope(const std::vector<Engine>& engines,
                                                       const std::vector<std::int64_t>& indices,
                                                       std::optional<std::int64_t> others, bool falls_back) {
  TORCH_CHECK_INDEX(!others || *others >= kByShape, "optimization_profile: index ", others.value_or(0),
                    " is negative; a profile's index starts at 0.");
  return std::make_shared<const ProfileScope>(ProfileScope{choices_of(engines, indices), others, falls_back});
}

c10::Dict<std::string, std::int64_t> profile_counters(const Engine& engine) {
  EngineState& state = learned_engine(engine);
  const std::scoped_lock lock(state.mutex);
  std::int64_t switches = state.switches;
  std::vector<std::int64_t> runs = state.runs;
  for_each_sibling(state, [&](const Engine&, const EngineState& sibling) { sibling.add_counters_to(switches, runs); });
  const c10::Dict<std::string, std::int64_t> counters;  // a handle: what it names is filled below
  counters.insert("switches", switches);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    counters.insert("runs_" + std::to_string(i), runs[i]);
  }
  return counters;
}

}  // namespace torch_tensorrt::profiles
