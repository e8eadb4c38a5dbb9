// Calls from many threads while the configuration changes. The fake engine aborts on any overlap.
#include <latch>
#include <thread>

#include "tests/core/runtime/support/harness.h"

namespace torch_tensorrt::profiles::testing {
namespace {

using Threads = CoreTest;
using namespace std::chrono_literals;

constexpr int kThreads = 8;
constexpr int kCalls = 60;

void run_while_toggling(const std::vector<EnginePtr>& engines, const std::string& folder, std::int64_t extent = 2) {
  std::atomic<int> running{kThreads};
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      const auto& engine = engines[static_cast<std::size_t>(i) % engines.size()];
      for (int n = 0; n < kCalls; ++n) {
        EXPECT_TRUE(run(engine, extent).equal(at::full({extent, 3}, 2.0)));
      }
      --running;
    });
  }
  for (int n = 0; running > 0; ++n) {
    set_enabled(n % 2 == 0);
    set_format(n % 4 < 2 ? "trex" : "perfetto");
    if (n % 8 == 0) {
      set_prefix(folder + (n % 16 == 0 ? "/a" : "/b"));
    }
    op<std::string>("dump_engine_timing");
    std::this_thread::sleep_for(200us);
  }
  for (auto& thread : threads) {
    thread.join();
  }
}

TEST_F(Threads, OneSharedEngineWhileTheConfigurationChanges) {
  FakeOptions options;
  options.profiles = {{2, 64}, {1, 1}};
  options.run_time = 100us;
  const auto engine = make_engine(options);
  engine->set_active_profile(1);
  run_while_toggling({engine}, folder(), 1);
  EXPECT_EQ(engine->profiles_run, std::vector<std::int64_t>(kThreads * kCalls, 1));
}

TEST_F(Threads, SeparateEnginesWhileTheConfigurationChanges) {
  std::vector<EnginePtr> engines;
  for (int i = 0; i < kThreads; ++i) {
    FakeOptions options;
    options.name = "engine_" + std::to_string(i / 2);
    engines.push_back(make_engine(options));
  }
  run_while_toggling(engines, folder());
}

TEST_F(Threads, DifferentEnginesRunAtTheSameTime) {
  std::latch both_inside(2);
  const auto meet = [&both_inside] { both_inside.arrive_and_wait(); };
  const auto a = make_engine();
  const auto b = make_engine();
  a->during_execute = meet;
  b->during_execute = meet;
  set_enabled(true);
  std::thread other([&] { run(a); });
  run(b);  // returns only once both are inside
  other.join();
}

TEST_F(Threads, EnginesAreFirstSeenByManyThreadsAtOnce) {
  for (int round = 0; round < 50; ++round) {
    const auto engine = make_engine();
    std::latch start(kThreads);
    std::vector<std::thread> threads;
    threads.reserve(kThreads);
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        start.arrive_and_wait();
        run(engine);
      });
    }
    for (auto& thread : threads) {
      thread.join();
    }
  }
  EXPECT_EQ(core::runtime::live_engines(), 0);
}

}  // namespace
}  // namespace torch_tensorrt::profiles::testing
