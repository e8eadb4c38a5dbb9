// What one call does to an engine before it runs.
#include "tests/core/runtime/support/fake_cuda.h"
#include "tests/core/runtime/support/harness.h"

namespace torch_tensorrt::profiles::testing {
namespace {

using Log = std::vector<std::string>;

const std::vector<FakeProfile> kPrefillAndDecode{{2, 64}, {1, 1}};

class ExecuteEngine : public CoreTest {
 protected:
  void TearDown() override {
    op<void, std::int64_t>("set_cudagraphs_mode", 0);
    CoreTest::TearDown();
  }
  static EnginePtr two_profiles(FakeOptions options = {}) {
    options.profiles = kPrefillAndDecode;
    return make_engine(std::move(options));
  }
};

TEST_F(ExecuteEngine, AnEngineThatIsNotProfiledIsNotTouched) {
  const auto engine = make_engine();
  EXPECT_TRUE(run(engine).equal(at::full({2, 3}, 2.0)));
  set_prefix(folder("a"));
  set_format("trex");
  run(engine);
  set_enabled(false);
  run(engine);
  EXPECT_EQ(engine->log, Log{});
  EXPECT_EQ(engine->num_execution_contexts_created(), 1);
}

TEST_F(ExecuteEngine, PathThenEnableThenFormat) {
  const auto engine = make_engine();
  set_prefix(folder());
  set_format("trex");
  set_enabled(true);
  EXPECT_EQ(engine->log, Log{});  // nothing happens before the next call
  run(engine);
  EXPECT_EQ(engine->log, (Log{"profile_path_prefix " + folder(), "enable_profiling", "set_profile_format trex"}));
  run(engine);
  EXPECT_EQ(engine->log.size(), 3U);
  EXPECT_EQ(engine->profiled_calls, 2);
}

TEST_F(ExecuteEngine, AChangeOfPathKeepsTheProfilerAndItsCounters) {
  const auto engine = make_engine();
  set_enabled(true);
  run(engine);
  engine->log.clear();
  set_prefix(folder("b"));
  run(engine);
  EXPECT_EQ(engine->log, (Log{"profile_path_prefix " + folder("b")}));
  EXPECT_DOUBLE_EQ(engine->profiler_totals_ms().at("conv"), 1.0);
  engine->log.clear();
  set_format("trex");
  run(engine);
  EXPECT_EQ(engine->log, (Log{"set_profile_format trex"}));
  EXPECT_DOUBLE_EQ(engine->profiler_totals_ms().at("conv"), 1.5);
}

TEST_F(ExecuteEngine, SwitchingOffPutsTheEngineBack) {
  const auto engine = make_engine();
  engine->set_profile_path_prefix("/own/place");
  set_enabled(true);
  run(engine);
  set_enabled(false);
  run(engine);
  EXPECT_FALSE(engine->is_profiling());
  EXPECT_EQ(engine->get_profile_path_prefix(), "/own/place");
  EXPECT_EQ(engine->profiled_calls, 1);
}

// The context is dropped behind our back; the engine must come back on the profile that its index names.
struct Drop {
  const char* what;
  std::function<void(const EnginePtr&)> drop;
};
const std::vector<Drop> kDrops{
    {"own disable_profiling", [](const EnginePtr& e) { disable_own_profiling(e); }},
    {"disable_profiling that nobody saw", [](const EnginePtr& e) { e->disable_profiling(); }},
    {"memory budget", [](const EnginePtr& e) { e->set_device_memory_budget(1000); }},
    {"allocation strategy", [](const EnginePtr& e) { e->use_dynamically_allocated_resources(true); }},
    {"runtime settings", [](const EnginePtr& e) { e->update_runtime_settings(2); }},
    {"dropped and made again", [](const EnginePtr& e) {
       e->disable_profiling();
       e->exec_ctx();
     }}};

TEST_F(ExecuteEngine, TheActiveProfileSurvivesADroppedContext) {
  for (const auto& [what, drop] : kDrops) {
    const auto engine = two_profiles();
    engine->set_active_profile(1);
    run(engine, 1);
    drop(engine);
    EXPECT_NO_THROW(run(engine, 1)) << what;
    EXPECT_EQ(engine->profiles_run.back(), 1) << what;
  }
}

TEST_F(ExecuteEngine, TheActiveProfileSurvivesADropBeforeTheFirstCallThatWeSee) {
  for (const auto& [what, drop] : kDrops) {
    const auto engine = two_profiles();
    engine->set_active_profile(1);
    drop(engine);
    EXPECT_NO_THROW(run(engine, 1)) << what;
  }
}

TEST_F(ExecuteEngine, TheActiveProfileSurvivesTheSwitch) {
  const auto engine = two_profiles();
  engine->set_active_profile(1);
  for (const bool enabled : {false, true, false, true, true, false}) {
    set_enabled(enabled);
    EXPECT_NO_THROW(run(engine, 1)) << enabled;
    EXPECT_NO_THROW(run(engine, 1)) << enabled;
    EXPECT_EQ(engine->is_profiling(), enabled);
  }
  EXPECT_EQ(engine->profiles_run, std::vector<std::int64_t>(12, 1));
}

TEST_F(ExecuteEngine, TheSwitchsProfilerSurvivesADroppedContext) {
  for (const auto& [what, drop] : kDrops) {
    if (std::string(what).starts_with("own ")) {
      continue;  // its owner does not want it, see OwnProfiling
    }
    for (const char* format : {"perfetto", "trex"}) {
      const auto engine = two_profiles();
      engine->set_active_profile(1);
      set_format(format);
      set_enabled(true);
      run(engine, 1);
      drop(engine);
      run(engine, 1);
      EXPECT_TRUE(engine->has_profiler()) << what;
      EXPECT_EQ(engine->profiler_totals_ms().size(), 2U) << what;
      const bool is_trex =
          read(engine->get_profile_path_prefix() + "/engine_engine_execution_profile.trace").find("timeMs") !=
          std::string::npos;
      EXPECT_EQ(is_trex, std::string(format) == "trex") << what;
      set_enabled(false);
      run(engine, 1);
    }
  }
}

TEST_F(ExecuteEngine, TheCommunicatorIsBoundAgain) {
  for (const auto& [what, drop] : kDrops) {
    const auto engine = make_engine({.requires_native_multidevice = true});
    run(engine);
    drop(engine);
    EXPECT_NO_THROW(run(engine)) << what;  // the fake aborts where a context without communicator runs
  }
  const auto engine = make_engine({.requires_native_multidevice = true});
  for (const bool enabled : {true, false, true, false}) {
    set_enabled(enabled);
    run(engine);
    run(engine);
  }
  EXPECT_EQ(engine->binds, 3);  // at construction, and after each of the two drops
}

TEST_F(ExecuteEngine, ACapturedGraphIsNotReplayedWithADeadContext) {
  op<void, std::int64_t>("set_cudagraphs_mode", 1);
  for (const bool multi : {false, true}) {
    const auto engine = multi ? two_profiles() : make_engine();
    run(engine);
    run(engine);
    EXPECT_EQ(engine->captures, 1);
    EXPECT_EQ(engine->replays, 2);
    std::int64_t captures = 1;
    for (const bool enabled : {true, false, true, false}) {
      set_enabled(enabled);
      run(engine);  // the fake aborts on a replay with a dead context
      run(engine);
      captures += enabled ? 0 : 1;
      EXPECT_EQ(engine->captures, captures);
    }
    for (const auto& [what, drop] : kDrops) {
      drop(engine);
      run(engine);
    }
    EXPECT_GE(engine->replays, 10 + static_cast<std::int64_t>(kDrops.size()));
  }
}

TEST_F(ExecuteEngine, NothingChangesWhileAStreamIsCapturing) {
  const FakeCuda cuda(1);
  const auto engine = make_engine();
  run(engine);
  FakeCuda::set_capturing(true);
  set_enabled(true);
  run(engine);
  EXPECT_EQ(engine->log, Log{});
  FakeCuda::set_capturing(false);
  run(engine);  // the revision was only put off
  EXPECT_TRUE(engine->is_profiling());
  FakeCuda::set_capturing(true);
  set_enabled(false);
  run(engine);
  EXPECT_TRUE(engine->is_profiling());
  FakeCuda::set_capturing(false);
  run(engine);
  EXPECT_FALSE(engine->is_profiling());
}

TEST_F(ExecuteEngine, ASwitchThatIsNeededWhileCapturingIsAnError) {
  const FakeCuda cuda(1);
  const auto engine = two_profiles();
  engine->set_active_profile(1);
  run(engine, 1);
  engine->disable_profiling();
  FakeCuda::set_capturing(true);
  const std::string message = message_of([&] { run(engine, 1); });
  EXPECT_NE(message.find("capturing"), std::string::npos) << message;
  EXPECT_NE(message.find("profile 1"), std::string::npos) << message;
  FakeCuda::set_capturing(false);
  EXPECT_NO_THROW(run(engine, 1));
}

TEST_F(ExecuteEngine, SwitchesAreIssuedOnTheCallersStream) {
  const FakeCuda cuda(2);
  FakeOptions options;
  options.device = 1;
  const auto engine = two_profiles(options);
  engine->set_active_profile(1);
  run(engine, 1);
  engine->use_dynamically_allocated_resources(true);
  FakeCuda::set_current_stream(7);
  engine->log.clear();
  run(engine, 1);
  EXPECT_EQ(engine->log, (Log{"set_active_profile 0 on stream 7", "set_active_profile 1 on stream 7"}));
}

TEST_F(ExecuteEngine, ProfilingIsSuspendedUnderTorchProfiler) {
  const auto engine = two_profiles();
  engine->set_active_profile(1);
  set_enabled(true);
  {
    const TorchProfiler profiler;
    run(engine, 1);  // raises where it is profiled in here
    EXPECT_EQ(engine->profiled_calls, 0);
  }
  run(engine, 1);
  EXPECT_EQ(engine->profiled_calls, 1);
  engine->log.clear();
  {
    const TorchProfiler profiler;
    run(engine, 1);
    run(engine, 1);
  }
  EXPECT_EQ(std::count(engine->log.begin(), engine->log.end(), "disable_profiling"), 1);
  run(engine, 1);
  EXPECT_EQ(engine->profiled_calls, 2);
  EXPECT_EQ(std::count(engine->log.begin(), engine->log.end(), "enable_profiling"), 1);
  {
    const TorchProfiler profiler;
    run(engine, 1);
    set_enabled(false);
    run(engine, 1);
  }
  run(engine, 1);
  EXPECT_FALSE(engine->is_profiling());
  EXPECT_EQ(engine->get_profile_path_prefix(), "/tmp");
}

TEST_F(ExecuteEngine, InferenceGoesOnWhereTracesCannotBeWritten) {
  const auto engine = make_engine();
  set_prefix(folder("gone"));
  std::filesystem::remove_all(folder("gone"));
  std::filesystem::create_symlink("/proc/nowhere", folder("gone"));
  set_enabled(true);
  const Warnings warnings;
  EXPECT_NO_THROW(run(engine));
  EXPECT_NO_THROW(run(engine));
  EXPECT_FALSE(engine->is_profiling());
  ASSERT_EQ(warnings.messages().size(), 1U);
  EXPECT_NE(warnings.messages()[0].find("'engine'"), std::string::npos) << warnings.messages()[0];
  EXPECT_NE(warnings.messages()[0].find(folder("gone")), std::string::npos) << warnings.messages()[0];
  set_prefix(folder("back"));
  run(engine);
  EXPECT_TRUE(engine->is_profiling());
}

TEST_F(ExecuteEngine, AFailingCallLeavesTheLockOpen) {
  const auto engine = two_profiles();
  set_enabled(true);
  EXPECT_THROW(run(engine, 1), c10::Error);
  EXPECT_NO_THROW(run(engine, 2));
}

TEST_F(ExecuteEngine, CpuAndEmptyInputsRun) {
  const auto engine = make_engine();
  EXPECT_EQ(run(engine).device().type(), at::kCPU);
  torch::jit::Stack stack;
  stack.emplace_back(c10::List<at::Tensor>());
  stack.emplace_back(engine);
  c10::Dispatcher::singleton().findSchemaOrThrow("tensorrt::execute_engine", "").callBoxed(stack);
  EXPECT_TRUE(stack.at(0).toTensorVector().empty());
}

}  // namespace
}  // namespace torch_tensorrt::profiles::testing
