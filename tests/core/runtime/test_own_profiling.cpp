// An engine that its owner profiles through its own methods, with and without the process-wide switch.
#include <latch>
#include <thread>

#include "core/runtime/c_api.h"
#include "core/runtime/engine_registry.h"
#include "core/runtime/json.h"
#include "tests/core/runtime/support/harness.h"

namespace torch_tensorrt::profiles::testing {
namespace {

using Log = std::vector<std::string>;

class OwnProfiling : public CoreTest {
 protected:
  void SetUp() override {
    CoreTest::SetUp();
    std::filesystem::create_directory(folder("own"));
    set_prefix(folder("switch"));
  }

  // Profiled by its owner, into folder("own").
  [[nodiscard]] EnginePtr own_engine(const std::string& format = "perfetto", FakeOptions options = {}) const {
    auto engine = make_engine(std::move(options));
    engine->set_profile_path_prefix(folder("own"));
    enable_own_profiling(engine);
    set_own_format(engine, format);
    return engine;
  }

  // "perfetto" or "trex" if the next call writes a report into that folder, else "".
  [[nodiscard]] std::string_view runs_into(const EnginePtr& engine, const std::string& name) const {
    const std::string file = folder(name) + "/engine_engine_execution_profile.trace";
    std::filesystem::remove(file);
    run(engine);
    if (!std::filesystem::exists(file)) {
      return "";
    }
    return read(file).find("timeMs") == std::string::npos ? "perfetto" : "trex";
  }

  static std::int64_t count(const EnginePtr& engine, const std::string& call) {
    return std::count(engine->log.begin(), engine->log.end(), call);
  }
};

TEST_F(OwnProfiling, IsNotTouchedByASwitchThatIsOff) {
  const auto engine = own_engine("trex");
  engine->log.clear();
  EXPECT_EQ(runs_into(engine, "own"), "trex");
  set_format("perfetto");
  set_prefix(folder("elsewhere"));
  set_enabled(false);
  EXPECT_EQ(runs_into(engine, "own"), "trex");
  EXPECT_EQ(engine->log, Log{});
  disable_own_profiling(engine);
  EXPECT_EQ(runs_into(engine, "own"), "");
}

TEST_F(OwnProfiling, IsOnlyBorrowedByTheSwitch) {
  for (const char* own_format : {"perfetto", "trex"}) {
    const auto engine = own_engine(own_format);
    run(engine);
    run(engine);
    engine->log.clear();
    for (const char* format : {"trex", "perfetto"}) {
      set_format(format);
      set_enabled(true);
      EXPECT_EQ(runs_into(engine, "switch"), format);
      set_enabled(false);
      EXPECT_EQ(runs_into(engine, "own"), own_format);
      EXPECT_EQ(runs_into(engine, "switch"), "");
    }
    EXPECT_TRUE(engine->is_profiling());
    EXPECT_EQ(count(engine, "enable_profiling") + count(engine, "disable_profiling"), 0);
    EXPECT_EQ(engine->profiled_calls, 8);
    EXPECT_DOUBLE_EQ(engine->profiler_totals_ms().at("conv"), 4.0);  // the counters went on over all of it
    disable_own_profiling(engine);
    run(engine);
    EXPECT_FALSE(engine->is_profiling());
  }
}

TEST_F(OwnProfiling, CallsBeforeTheSwitchAreNotInTheTimings) {
  for (const char* own_format : {"perfetto", "trex"}) {
    for (const char* format : {"perfetto", "trex"}) {
      const auto engine = own_engine(own_format);
      for (int i = 0; i < 5; ++i) {
        run(engine);
      }
      for (int round = 0; round < 2; ++round) {
        set_format(format);
        set_enabled(true);
        run(engine);
        run(engine);
        set_enabled(false);
        run(engine);
        const auto rows = json::parse(op<std::string>("dump_engine_timing"));
        ASSERT_TRUE(rows.has_value());
        ASSERT_EQ(rows->array()->size(), 2U);
        const json::Value& conv = rows->array()->at(0);
        EXPECT_EQ(std::get<double>(conv.find("count")->data), 2) << own_format << " " << format << " " << round;
        EXPECT_DOUBLE_EQ(std::get<double>(conv.find("total_ms")->data), 1.0) << own_format << " " << format;
      }
    }
  }
}

TEST_F(OwnProfiling, DisablingIsLearnedWhileTheSwitchIsOn) {
  for (const bool is_own : {false, true}) {
    const auto engine = is_own ? own_engine() : make_engine();
    engine->set_profile_path_prefix(folder("own"));
    set_enabled(true);
    EXPECT_EQ(runs_into(engine, "switch"), "perfetto");
    disable_own_profiling(engine);
    EXPECT_EQ(engine->get_profile_path_prefix(), folder("own"));  // given back at once
    EXPECT_EQ(runs_into(engine, "switch"), "");
    EXPECT_FALSE(engine->is_profiling());
    set_format("trex");  // the next revision profiles it again
    EXPECT_EQ(runs_into(engine, "switch"), "trex");
    set_enabled(false);
    EXPECT_EQ(runs_into(engine, "switch"), "");
    EXPECT_FALSE(engine->is_profiling());
    set_format("perfetto");
  }
}

TEST_F(OwnProfiling, DisablingBeforeTheSwitchReachesTheEngineCountsToo) {
  const auto engine = own_engine();
  run(engine);
  set_enabled(true);
  disable_own_profiling(engine);
  run(engine);
  EXPECT_FALSE(engine->is_profiling());
  set_enabled(true);
  run(engine);
  EXPECT_TRUE(engine->is_profiling());
}

TEST_F(OwnProfiling, SettingsThatComeBackAreNoDisabling) {
  const auto engine = make_engine();
  set_enabled(true);
  run(engine);
  engine->use_dynamically_allocated_resources(true);
  engine->use_dynamically_allocated_resources(false);
  EXPECT_EQ(runs_into(engine, "switch"), "perfetto");
}

TEST_F(OwnProfiling, EnablingWhileTheSwitchIsOnLastsBeyondIt) {
  const auto engine = make_engine();
  set_format("trex");
  set_enabled(true);
  EXPECT_EQ(runs_into(engine, "switch"), "trex");
  engine->set_profile_path_prefix(folder("own"));
  enable_own_profiling(engine);  // its profiler begins as "perfetto"
  EXPECT_EQ(runs_into(engine, "switch"), "trex");
  EXPECT_EQ(runs_into(engine, "own"), "");
  set_enabled(false);
  EXPECT_EQ(runs_into(engine, "own"), "perfetto");
  EXPECT_EQ(runs_into(engine, "switch"), "");
  EXPECT_EQ(count(engine, "enable_profiling"), 2);
  EXPECT_EQ(count(engine, "disable_profiling"), 0);
}

TEST_F(OwnProfiling, AFormatSetWhileTheSwitchIsOnIsForLater) {
  const auto engine = own_engine();
  set_enabled(true);
  EXPECT_EQ(runs_into(engine, "switch"), "perfetto");
  set_own_format(engine, "trex");
  EXPECT_EQ(runs_into(engine, "switch"), "perfetto");
  set_enabled(false);
  EXPECT_EQ(runs_into(engine, "own"), "trex");
}

TEST_F(OwnProfiling, AFormatThatIsRefusedIsNotNoted) {
  const auto engine = own_engine("trex");
  EXPECT_NE(message_of([&] { set_own_format(engine, "svg"); }), "");
  set_enabled(true);
  run(engine);
  set_enabled(false);
  EXPECT_EQ(runs_into(engine, "own"), "trex");
}

TEST_F(OwnProfiling, AnEngineThatDeclinedMayProfileItself) {
  const auto engine = make_engine();
  set_enabled(true);
  run(engine);
  disable_own_profiling(engine);
  engine->set_profile_path_prefix(folder("own"));
  enable_own_profiling(engine);
  set_own_format(engine, "trex");
  EXPECT_EQ(runs_into(engine, "own"), "trex");
  set_format("perfetto");  // the next revision borrows it
  EXPECT_EQ(runs_into(engine, "switch"), "perfetto");
  set_enabled(false);
  EXPECT_EQ(runs_into(engine, "own"), "trex");
}

TEST_F(OwnProfiling, IsNotSuspendedUnderTorchProfiler) {
  const auto engine = own_engine("trex");
  run(engine);
  engine->log.clear();
  {
    const TorchProfiler profiler;
    set_enabled(true);
    EXPECT_ANY_THROW(run(engine));  // Torch-TensorRT's own trace cannot be taken inside a profiler of torch
    EXPECT_EQ(engine->log, Log{});
  }
  EXPECT_EQ(runs_into(engine, "switch"), "perfetto");
  engine->log.clear();
  {
    const TorchProfiler profiler;
    EXPECT_ANY_THROW(run(engine));
    EXPECT_EQ(engine->log, Log{});
  }
  EXPECT_EQ(runs_into(engine, "switch"), "perfetto");
  EXPECT_DOUBLE_EQ(engine->profiler_totals_ms().at("conv"), 1.5);
  set_enabled(false);
  EXPECT_EQ(runs_into(engine, "own"), "trex");
}

TEST_F(OwnProfiling, WhatIsSaidWhileSuspendedIsLearned) {
  for (const bool enables : {true, false}) {
    const auto engine = make_engine();
    set_enabled(true);
    run(engine);
    {
      const TorchProfiler profiler;
      run(engine);
      EXPECT_FALSE(engine->is_profiling());
      (enables ? enable_own_profiling : disable_own_profiling)(engine);
    }
    run(engine);
    EXPECT_EQ(engine->is_profiling(), enables);
    set_enabled(false);
    run(engine);
    EXPECT_EQ(engine->is_profiling(), enables);
  }
}

TEST_F(OwnProfiling, SurvivesADroppedContext) {
  const std::vector<std::function<void(const EnginePtr&)>> drops{
      [](const EnginePtr& e) { e->set_device_memory_budget(1000); },
      [](const EnginePtr& e) { e->use_dynamically_allocated_resources(true); },
      [](const EnginePtr& e) { e->update_runtime_settings(2); }};
  for (const auto& drop : drops) {
    for (const char* own_format : {"perfetto", "trex"}) {
      for (const bool ran_before : {false, true}) {
        const auto engine = own_engine(own_format);
        if (ran_before) {
          run(engine);
        }
        drop(engine);
        EXPECT_EQ(runs_into(engine, "own"), own_format);
        EXPECT_TRUE(engine->has_profiler());
        EXPECT_DOUBLE_EQ(engine->profiler_totals_ms().at("conv"), 0.5);
        set_format("trex");
        set_enabled(true);
        drop(engine);
        EXPECT_EQ(runs_into(engine, "switch"), "trex");
        EXPECT_TRUE(engine->has_profiler());
        set_enabled(false);
        drop(engine);
        EXPECT_EQ(runs_into(engine, "own"), own_format);
        EXPECT_TRUE(engine->has_profiler());
      }
    }
  }
}

TEST_F(OwnProfiling, KeepsTheActiveProfile) {
  const auto engine = own_engine("perfetto", {.profiles = {{2, 64}, {1, 1}}});
  engine->set_active_profile(1);
  for (const bool enabled : {true, false, true, false}) {
    set_enabled(enabled);
    EXPECT_NO_THROW(run(engine, 1));
    enable_own_profiling(engine);
    EXPECT_NO_THROW(run(engine, 1));
    engine->update_runtime_settings(enabled ? 2 : 1);
    EXPECT_NO_THROW(run(engine, 1));
    disable_own_profiling(engine);
    EXPECT_NO_THROW(run(engine, 1));
  }
  EXPECT_EQ(engine->profiles_run, std::vector<std::int64_t>(16, 1));
}

TEST_F(OwnProfiling, MethodsWaitForTheCallInFlight) {
  std::atomic<bool> stop{false};
  const auto engine = make_engine({.run_time = std::chrono::microseconds(50)});
  set_enabled(true);
  std::vector<std::thread> owners;
  owners.reserve(3);
  for (int i = 0; i < 3; ++i) {
    owners.emplace_back([&] {
      while (!stop) {
        enable_own_profiling(engine);
        disable_own_profiling(engine);
      }
    });
  }
  for (int i = 0; i < 200; ++i) {
    run(engine);  // the fake aborts where a method overlaps it
  }
  stop = true;
  for (auto& owner : owners) {
    owner.join();
  }
}

TEST_F(OwnProfiling, MethodsOfOneEngineDoNotWaitForAnother) {
  const auto busy = make_engine();
  const auto other = make_engine();
  std::latch inside(1);
  std::latch done(1);
  busy->during_execute = [&] {
    inside.count_down();
    done.wait();
  };
  std::thread thread([&] { run(busy); });
  inside.wait();
  enable_own_profiling(other);
  done.count_down();
  thread.join();
  EXPECT_TRUE(other->is_profiling());
}

TEST_F(OwnProfiling, IsUnknownOfEnginesThatWereProfiledBeforeActivation) {
  const auto engine = own_engine();
  run(engine);
  ASSERT_EQ(torchtrt_profiles_deactivate(), nullptr);
  enable_own_profiling(engine);  // the class's own method again
  ASSERT_EQ(torchtrt_profiles_activate(), nullptr);
  run(engine);
  EXPECT_TRUE(engine->is_profiling());
  set_enabled(true);
  run(engine);
  set_enabled(false);
  run(engine);
  EXPECT_FALSE(engine->is_profiling());
}

TEST_F(OwnProfiling, AStateMadeByAMethodDiesWithItsEngine) {
  {
    const auto engine = own_engine();
    EXPECT_EQ(EngineRegistry::instance().live().size(), 1U);
  }
  EXPECT_TRUE(EngineRegistry::instance().live().empty());
  EXPECT_EQ(core::runtime::live_engines(), 0);
}

}  // namespace
}  // namespace torch_tensorrt::profiles::testing
