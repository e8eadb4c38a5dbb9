#pragma once

#include <ATen/core/ivalue.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Stream.h>

#include <optional>

// CUDA's streams as libc10 knows them. Nothing here needs CUDA to be in the process.
namespace torch_tensorrt::profiles {

// Whether there is a CUDA device.
[[nodiscard]] bool has_cuda();

// The stream that the calling thread has made current on the device. Nothing where there is no CUDA device; -1 is the
// current device.
[[nodiscard]] std::optional<c10::Stream> current_cuda_stream(int device);

// The device on which Torch-TensorRT takes the caller's stream: that of the first tensor, -1 (the current one) if that
// is none on CUDA.
[[nodiscard]] int cuda_device_of(const c10::IValue& tensors);

// Makes the device current as long as the result lives; does nothing for -1 or without CUDA.
[[nodiscard]] c10::OptionalDeviceGuard on_cuda_device(int device);

[[nodiscard]] bool is_capturing(const std::optional<c10::Stream>& stream);

// Until what is on the stream has run, unless it is being captured.
void wait_for(const std::optional<c10::Stream>& stream);

}  // namespace torch_tensorrt::profiles
