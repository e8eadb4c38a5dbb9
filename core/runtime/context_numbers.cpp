#include "core/runtime/context_numbers.h"

#include "core/runtime/engine_registry.h"
#include "core/runtime/profile_contexts.h"

namespace torch_tensorrt::profiles {
namespace {

// Under the engine's lock.
std::int64_t number_of(const Engine& engine, const EngineState& state) {
  constexpr std::int64_t kContextsPerEngine = 4'294'967'296;
  return engine.has_context() ? (state.track * kContextsPerEngine) + engine.contexts_created() : -1;
}

}  // namespace

std::vector<std::int64_t> context_numbers(const std::vector<Engine>& engines) {
  std::vector<std::int64_t> numbers;
  for (const Engine& engine : engines) {
    EngineState* const state = EngineRegistry::instance().of(engine);
    TORCH_CHECK(state != nullptr,
                "torch-tensorrt-profiles: this engine is not of the class that Torch-TensorRT 2.14 has.");
    const std::scoped_lock lock(state->mutex);
    numbers.push_back(number_of(engine, *state));
    for_each_sibling(*state, [&numbers](const Engine& sibling, const EngineState& of_sibling) {
      numbers.push_back(number_of(sibling, of_sibling));
    });
  }
  return numbers;
}

}  // namespace torch_tensorrt::profiles
