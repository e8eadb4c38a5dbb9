#include "core/runtime/context_numbers.h"

#include "core/runtime/engine_registry.h"

namespace torch_tensorrt::profiles {

std::vector<std::int64_t> context_numbers(const std::vector<Engine>& engines) {
  constexpr std::int64_t kContextsPerEngine = 4'294'967'296;
  std::vector<std::int64_t> numbers;
  for (const Engine& engine : engines) {
    EngineState* const state = EngineRegistry::instance().of(engine);
    TORCH_CHECK(state != nullptr,
                "torch-tensorrt-profiles: this engine is not of the class that Torch-TensorRT 2.14 has.");
    const std::scoped_lock lock(state->mutex);
    numbers.push_back(engine.has_context() ? (state->track * kContextsPerEngine) + engine.contexts_created() : -1);
  }
  return numbers;
}

}  // namespace torch_tensorrt::profiles
