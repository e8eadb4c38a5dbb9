#pragma once

#include <cstdint>
#include <vector>

#include "core/runtime/torchtrt_engine.h"

namespace torch_tensorrt::profiles {

// For each engine the number of the execution context that it has now, or -1 for none; then, where it has a context per
// profile, those of the others. No other context of the process,
// before or after, has the number, so a CUDA graph captured on a context is still good as long as it stays the same.
[[nodiscard]] std::vector<std::int64_t> context_numbers(const std::vector<Engine>& engines);

}  // namespace torch_tensorrt::profiles
