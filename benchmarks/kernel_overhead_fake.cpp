// What our kernel costs per call of an engine that does nothing, as JSON: nanoseconds, medians over repetitions that
// take turns (stock, ours, stock, ours). "stock" is the operator while the library is deactivated.
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "core/runtime/c_api.h"
#include "core/runtime/runtime.h"
#include "tests/core/runtime/support/fake_engine.h"

namespace {

using torch_tensorrt::core::runtime::FakeOptions;
using torch_tensorrt::core::runtime::TRTEngine;
using torch_tensorrt::profiles::Runtime;

constexpr int kRepetitions = 15;
constexpr int kCalls = 50000;

double thread_nanoseconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (static_cast<double>(now.tv_sec) * 1e9) + static_cast<double>(now.tv_nsec);
}

double nanoseconds_per_call(const c10::OperatorHandle& op, const c10::IValue& engine) {
  const c10::List<at::Tensor> list({at::ones({2, 3})});
  const double start = thread_nanoseconds();
  for (int i = 0; i < kCalls; ++i) {
    torch::jit::Stack stack;
    stack.reserve(2);
    stack.emplace_back(list);
    stack.push_back(engine);
    op.callBoxed(stack);
  }
  return (thread_nanoseconds() - start) / kCalls;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values.at(values.size() / 2);
}

void report(const char* state, const c10::OperatorHandle& op, const c10::intrusive_ptr<TRTEngine>& engine,
            bool last = false) {
  const c10::IValue value(engine);
  std::vector<double> stock;
  std::vector<double> ours;
  for (int i = 0; i < kRepetitions; ++i) {
    torchtrt_profiles_deactivate();
    stock.push_back(nanoseconds_per_call(op, value));
    torchtrt_profiles_activate();
    ours.push_back(nanoseconds_per_call(op, value));
  }
  std::printf("  \"%s\": {\"stock_ns\": %.1f, \"ours_ns\": %.1f, \"overhead_ns\": %.1f}%s\n", state, median(stock),
              median(ours), median(ours) - median(stock), last ? "" : ",");
}

void pin(const c10::intrusive_ptr<TRTEngine>& engine, std::int64_t index) {
  torch::jit::Stack stack{engine, index};
  c10::Dispatcher::singleton().findSchemaOrThrow("tensorrt::set_active_profile", "").callBoxed(stack);
}

}  // namespace

int main() {
  if (const char* message = torchtrt_profiles_activate()) {
    std::fprintf(stderr, "%s\n", message);
    return 1;
  }
  // A second thread, as any real process has: it makes the locks pay for atomicity.
  std::atomic<bool> stop{false};
  std::thread second([&stop] {
    while (!stop) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  });
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("tensorrt::execute_engine", "");
  const auto folder = std::filesystem::temp_directory_path() / "torchtrt_profiles_benchmark";
  FakeOptions one;
  one.does_nothing = true;
  FakeOptions two = one;
  two.profiles = {{1, 64}, {1, 64}};
  const auto run = [&op](const c10::intrusive_ptr<TRTEngine>& engine) {
    torch::jit::Stack stack;
    stack.emplace_back(c10::List<at::Tensor>({at::ones({2, 3})}));
    stack.emplace_back(engine);
    op.callBoxed(stack);
  };
  Runtime& runtime = Runtime::instance();

  std::printf("{\n");
  report("never configured", op, c10::make_intrusive<TRTEngine>(one));
  report("never configured, two profiles", op, c10::make_intrusive<TRTEngine>(two));
  runtime.set_profile_path_prefix(folder.string());
  report("path set only", op, c10::make_intrusive<TRTEngine>(one));
  {
    const auto engine = c10::make_intrusive<TRTEngine>(one);
    runtime.set_profile_execution(true);
    run(engine);
    runtime.set_profile_execution(false);
    run(engine);
    report("profiled once and off again", op, engine);
  }
  const auto pinned = c10::make_intrusive<TRTEngine>(two);
  pin(pinned, 1);
  report("pinned to profile 1 of two", op, pinned, true);
  std::printf("}\n");
  stop = true;
  second.join();
  std::filesystem::remove_all(folder);
  return 0;
}
