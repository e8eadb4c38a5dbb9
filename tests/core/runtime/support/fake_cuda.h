#pragma once

#include <c10/core/Stream.h>

#include <cstdint>
#include <string>
#include <vector>

// A CUDA device that exists for libc10 alone: streams have numbers, capturing is a flag, events are a log. Zero devices
// until a test wants some.
namespace torch_tensorrt::profiles::testing {

class FakeCuda {
 public:
  explicit FakeCuda(int devices);
  ~FakeCuda();
  FakeCuda(const FakeCuda&) = delete;
  FakeCuda& operator=(const FakeCuda&) = delete;

  // Of the calling thread.
  static void set_current_stream(std::int64_t id);
  static void set_capturing(bool capturing);
  // "record <stream>", "wait <stream>", "synchronize <stream>" and "empty cache" in order, over all threads.
  static std::vector<std::string> events();
};

}  // namespace torch_tensorrt::profiles::testing
