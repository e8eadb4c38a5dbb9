#include "core/runtime/engine_registry.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace torch_tensorrt::profiles {

void EngineState::learn(const Engine& engine) {
  if (is_known) {
    return;
  }
  identity = engine.identity();
  profile_count = engine.num_optimization_profiles();
  is_multidevice = engine.requires_native_multidevice();
  if (std::cmp_equal(identity.profiles.size(), profile_count)) {
    ranges = ProfileRanges(identity.profiles, identity.inputs);
  }
  runs.resize(static_cast<std::size_t>(profile_count));
  is_known = true;
}

std::string EngineState::context_title() const {
  if (!context_profile) {
    return {};
  }
  const auto at = static_cast<std::size_t>(*context_profile);
  const bool is_named = at < identity.profiles.size() && !identity.profiles[at].name.empty();
  return is_named ? identity.profiles[at].name : "profile_" + std::to_string(at);
}

void EngineState::add_counters_to(std::int64_t& other_switches, std::vector<std::int64_t>& other_runs) const {
  other_switches += switches;
  std::ranges::transform(runs, other_runs, other_runs.begin(), std::plus<>());
}

std::shared_ptr<const ProfileContexts> ProfileContextsSlot::get_filled() const {
  const std::scoped_lock lock(mutex_);
  return contexts_;
}

std::shared_ptr<const ProfileContexts> ProfileContextsSlot::exchange(std::shared_ptr<const ProfileContexts> contexts) {
  const std::scoped_lock lock(mutex_);
  is_filled_.store(contexts != nullptr, std::memory_order_relaxed);
  contexts_.swap(contexts);
  return contexts;
}

EngineRegistry& EngineRegistry::instance() {
  // Leaked on purpose: engines die during static destruction too, and announce it here.
  static auto& registry = *new EngineRegistry();  // NOLINT(cppcoreguidelines-owning-memory)
  return registry;
}

EngineState* EngineRegistry::of(const Engine& engine) {
  {
    const std::shared_lock lock(mutex_);
    const auto known = states_.find(engine.address());
    if (known != states_.end()) {
      return known->second.get();
    }
  }
  const std::unique_lock lock(mutex_);
  const auto known = states_.find(engine.address());
  if (known != states_.end()) {
    return known->second.get();
  }
  // Under the lock: the notice that another thread plants changes what is looked at.
  if (!engine.has_expected_layout()) {
    return nullptr;
  }
  const auto state = std::make_shared<EngineState>(++seen_);
  states_.emplace(engine.address(), state);
  engine.on_destruction([this, address = engine.address()] { forget(address); });
  return state.get();
}

std::vector<std::pair<const void*, std::shared_ptr<EngineState>>> EngineRegistry::live() const {
  const std::shared_lock lock(mutex_);
  return {states_.begin(), states_.end()};
}

void EngineRegistry::forget(const void* address) noexcept {
  decltype(states_)::node_type state;
  {
    const std::unique_lock lock(mutex_);
    state = states_.extract(address);
  }
  if (!state.empty()) {
    // Siblings die with the engine, also where somebody else still looks at its state.
    [[maybe_unused]] const auto siblings = state.mapped()->contexts.exchange(nullptr);
  }
}

}  // namespace torch_tensorrt::profiles
