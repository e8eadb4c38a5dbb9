// State follows its engine, and never keeps one alive.
#include <malloc.h>

#include <thread>

#include "core/runtime/c_api.h"
#include "core/runtime/engine_registry.h"
#include "core/runtime/runtime.h"
#include "tests/core/runtime/support/harness.h"

namespace torch_tensorrt::profiles::testing {
namespace {

using Lifetime = CoreTest;

std::size_t known_engines() {
  return EngineRegistry::instance().live().size();
}

TEST_F(Lifetime, StateDiesWithItsEngine) {
  auto engine = make_engine();
  EXPECT_EQ(known_engines(), 0U);
  run(engine);
  EXPECT_EQ(known_engines(), 1U);
  engine.reset();
  EXPECT_EQ(known_engines(), 0U);
  EXPECT_EQ(core::runtime::live_engines(), 0);
  EXPECT_EQ(nvinfer1::IRuntime::alive, 0);
  EXPECT_EQ(nvinfer1::ICudaEngine::alive, 0);
}

TEST_F(Lifetime, TheLastReferenceMayBeOnTheStack) {
  set_enabled(true);
  EXPECT_TRUE(run_last(make_engine()).equal(at::full({2, 3}, 2.0)));
  EXPECT_EQ(known_engines(), 0U);
  EXPECT_EQ(core::runtime::live_engines(), 0);
}

TEST_F(Lifetime, AnAddressThatIsUsedAgainStartsAfresh) {
  set_enabled(true);
  const void* address = nullptr;
  for (int i = 0; i < 100; ++i) {
    const auto engine = make_engine();
    run(engine);
    EXPECT_TRUE(engine->is_profiling());
    address = address == nullptr ? engine.get() : address;
    if (i > 0 && engine.get() == address) {
      return;  // and it was profiled all the same
    }
  }
  GTEST_SKIP() << "the allocator never gave an address twice";
}

TEST_F(Lifetime, TenThousandEnginesWhileTheSwitchToggles) {
  std::atomic<bool> stop{false};
  std::thread toggler([&] {
    while (!stop) {
      set_enabled(true);
      set_enabled(false);
      std::this_thread::yield();
    }
  });
  const auto round = [&] {
    for (int i = 0; i < 1000; ++i) {
      if (i % 2 == 0) {
        run_last(make_engine());
      } else {
        const auto engine = make_engine();
        run(engine);
        run(engine);
      }
      ASSERT_EQ(known_engines(), 0U);
      ASSERT_EQ(core::runtime::live_engines(), 0);
    }
  };
  round();
  const auto before = ::mallinfo2().uordblks;
  for (int i = 0; i < 9; ++i) {
    round();
  }
  const auto after = ::mallinfo2().uordblks;
  stop = true;
  toggler.join();
  EXPECT_LT(after, before + (std::size_t{1} << 20U)) << "growth over 9000 engines";
  // One name, never two of them alive: one file set, no folders.
  for (const auto& entry : std::filesystem::directory_iterator(folder())) {
    EXPECT_FALSE(entry.is_directory()) << entry.path();
  }
}

TEST_F(Lifetime, EnginesDieSafelyAfterDeactivation) {
  auto engine = make_engine();
  set_enabled(true);
  run(engine);
  ASSERT_EQ(torchtrt_profiles_deactivate(), nullptr);
  run(engine);
  EXPECT_TRUE(engine->is_profiling());  // it keeps what it has
  EXPECT_NE(message_of([] { op<std::string>("get_profile_format"); }), "");
  ASSERT_EQ(torchtrt_profiles_activate(), nullptr);
  set_enabled(false);
  run(engine);
  EXPECT_FALSE(engine->is_profiling());  // picked up where it was
  ASSERT_EQ(torchtrt_profiles_deactivate(), nullptr);
  engine.reset();
  EXPECT_EQ(known_engines(), 0U);
  ASSERT_EQ(torchtrt_profiles_activate(), nullptr);
}

}  // namespace
}  // namespace torch_tensorrt::profiles::testing
