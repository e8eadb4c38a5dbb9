#pragma once

#include <string>

namespace torch_tensorrt::profiles {

// A JSON list with one object per layer and optimization profile of every live engine that the process-wide switch has
// profiled: engine, object_id, profile (its name, or index), layer, count, total_ms, mean_ms.
[[nodiscard]] std::string timing_report();

}  // namespace torch_tensorrt::profiles
