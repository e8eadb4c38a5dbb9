#include "core/runtime/engine_registry.h"

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
  decltype(states_)::node_type state;  // dies after the lock
  const std::unique_lock lock(mutex_);
  state = states_.extract(address);
}

}  // namespace torch_tensorrt::profiles
