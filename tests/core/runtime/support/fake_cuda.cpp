#include "tests/core/runtime/support/fake_cuda.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <atomic>
#include <mutex>

#include "tests/core/runtime/support/fake_engine.h"

namespace torch_tensorrt::profiles::testing {
namespace {

std::atomic<int> device_count{0};
thread_local std::int64_t current_stream = 0;
thread_local c10::DeviceIndex current_device = 0;
thread_local bool is_capturing = false;
std::mutex log_mutex;
std::vector<std::string> event_log;

void note(const std::string& what) {
  const std::scoped_lock lock(log_mutex);
  event_log.push_back(what);
}

struct Guard final : public c10::impl::DeviceGuardImplInterface {
  [[maybe_unused]] static constexpr c10::DeviceType static_type = c10::DeviceType::CUDA;
  Guard() = default;
  explicit Guard(c10::DeviceType /*type*/) {}

  [[nodiscard]] c10::DeviceType type() const override { return c10::DeviceType::CUDA; }
  [[nodiscard]] c10::Device exchangeDevice(c10::Device device) const override {
    const auto before = getDevice();
    setDevice(device);
    return before;
  }
  [[nodiscard]] c10::Device getDevice() const override { return {c10::DeviceType::CUDA, current_device}; }
  void setDevice(c10::Device device) const override { current_device = device.index(); }
  void uncheckedSetDevice(c10::Device device) const noexcept override { current_device = device.index(); }
  [[nodiscard]] c10::Stream getStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::UNSAFE, device, current_stream);
  }
  [[nodiscard]] c10::Stream exchangeStream(c10::Stream stream) const override {
    const auto before = getStream(stream.device());
    current_stream = stream.id();
    return before;
  }
  [[nodiscard]] c10::DeviceIndex deviceCount() const noexcept override {
    return static_cast<c10::DeviceIndex>(device_count.load());
  }
  [[nodiscard]] bool isStreamCapturing(const c10::Stream& /*stream*/) const override { return is_capturing; }
  void record(void** event, const c10::Stream& stream, c10::DeviceIndex /*device*/,
              c10::EventFlag /*flag*/) const override {
    *event = &device_count;  // any address but null
    note("record " + std::to_string(stream.id()));
  }
  void block(void* /*event*/, const c10::Stream& stream) const override { note("wait " + std::to_string(stream.id())); }
  [[nodiscard]] bool queryEvent(void* /*event*/) const override { return true; }
  void synchronizeStream(const c10::Stream& stream) const override {
    note("synchronize " + std::to_string(stream.id()));
  }
  void destroyEvent(void* /*event*/, c10::DeviceIndex /*device*/) const noexcept override {}
};

C10_REGISTER_GUARD_IMPL(CUDA, Guard)

// Tells what fake engines have left of the device's memory, and allocates nothing.
struct Allocator final : public c10::DeviceAllocator {
  Allocator() { c10::SetAllocator(c10::DeviceType::CUDA, this); }

  c10::DataPtr allocate(std::size_t /*bytes*/) override { return {}; }
  void copy_data(void* /*to*/, const void* /*from*/, std::size_t /*bytes*/) const override {}
  bool initialized() override { return device_count > 0; }
  void emptyCache(c10::MempoolId_t /*pool*/) override { note("empty cache"); }
  void recordStream(const c10::DataPtr& /*data*/, c10::Stream /*stream*/) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex /*device*/) override { return {}; }
  void resetAccumulatedStats(c10::DeviceIndex /*device*/) override {}
  void resetPeakStats(c10::DeviceIndex /*device*/) override {}
  std::pair<std::size_t, std::size_t> getMemoryInfo(c10::DeviceIndex /*device*/) override {
    return {static_cast<std::size_t>(nvinfer1::DeviceMemory::free.load()), std::size_t{1'000'000'000'000}};
  }
} allocator;

}  // namespace

FakeCuda::FakeCuda(int devices) {
  device_count = devices;
  set_current_stream(0);
  set_capturing(false);
  const std::scoped_lock lock(log_mutex);
  event_log.clear();
}

FakeCuda::~FakeCuda() {
  device_count = 0;
  set_current_stream(0);
  set_capturing(false);
}

void FakeCuda::set_current_stream(std::int64_t id) {
  current_stream = id;
}

void FakeCuda::set_capturing(bool capturing) {
  is_capturing = capturing;
}

std::vector<std::string> FakeCuda::events() {
  const std::scoped_lock lock(log_mutex);
  return event_log;
}

}  // namespace torch_tensorrt::profiles::testing
