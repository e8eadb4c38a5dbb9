#include "core/runtime/device_memory.h"

#include <c10/core/CachingDeviceAllocator.h>

#include "core/runtime/cuda_streams.h"

namespace torch_tensorrt::profiles {
namespace {

c10::DeviceAllocator* cuda_allocator() {
  if (!has_cuda()) {
    return nullptr;
  }
  try {
    c10::DeviceAllocator* const allocator = c10::getDeviceAllocator(c10::DeviceType::CUDA);
    return allocator->initialized() ? allocator : nullptr;
  } catch (const c10::Error&) {
    return nullptr;  // nobody has registered one
  }
}

}  // namespace

std::optional<std::int64_t> free_device_memory(int device) {
  c10::DeviceAllocator* const allocator = device < 0 ? nullptr : cuda_allocator();
  if (allocator == nullptr) {
    return std::nullopt;
  }
  try {
    return static_cast<std::int64_t>(allocator->getMemoryInfo(static_cast<c10::DeviceIndex>(device)).first);
  } catch (const c10::Error&) {
    return std::nullopt;  // this one does not tell
  }
}

void empty_device_cache() {
  if (c10::DeviceAllocator* const allocator = cuda_allocator()) {
    allocator->emptyCache();
  }
}

}  // namespace torch_tensorrt::profiles
