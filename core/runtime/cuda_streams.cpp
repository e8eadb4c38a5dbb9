#include "core/runtime/cuda_streams.h"

#include <ATen/core/Tensor.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace torch_tensorrt::profiles {

bool has_cuda() {
  return c10::impl::hasDeviceGuardImpl(c10::DeviceType::CUDA) &&
         c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA).deviceCount() > 0;
}

std::optional<c10::Stream> current_cuda_stream(int device) {
  if (!has_cuda()) {
    return std::nullopt;
  }
  const c10::impl::VirtualGuardImpl cuda(c10::DeviceType::CUDA);
  const auto which =
      device < 0 ? cuda.getDevice() : c10::Device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(device));
  return cuda.getStream(which);
}

int cuda_device_of(const c10::IValue& tensors) {
  const auto list = tensors.toListRef();
  if (list.empty() || !list.front().isTensor() || !list.front().toTensor().is_cuda()) {
    return -1;
  }
  return list.front().toTensor().device().index();
}

c10::OptionalDeviceGuard on_cuda_device(int device) {
  return c10::OptionalDeviceGuard(
      device >= 0 && has_cuda()
          ? std::optional<c10::Device>(std::in_place, c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(device))
          : std::nullopt);
}

bool is_capturing(const std::optional<c10::Stream>& stream) {
  return stream && c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA).isStreamCapturing(*stream);
}

void wait_for(const std::optional<c10::Stream>& stream) {
  if (stream && !is_capturing(stream)) {
    c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA).synchronizeStream(*stream);
  }
}

}  // namespace torch_tensorrt::profiles
