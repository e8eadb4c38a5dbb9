#pragma once

#include <cstdint>
#include <optional>

namespace torch_tensorrt::profiles {

// Bytes that are free on a CUDA device. Nothing where nobody tells.
[[nodiscard]] std::optional<std::int64_t> free_device_memory(int device);

// Has PyTorch's allocator give back what it only keeps for later.
void empty_device_cache();

}  // namespace torch_tensorrt::profiles
