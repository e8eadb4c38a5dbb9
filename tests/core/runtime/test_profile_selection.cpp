// Which profile a call runs on, per thread; switches, streams and counters.
#include <thread>

#include "tests/core/runtime/support/fake_cuda.h"
#include "tests/core/runtime/support/harness.h"

namespace torch_tensorrt::profiles::testing {
namespace {

c10::IValue call(const char* name, torch::jit::Stack stack) {
  c10::Dispatcher::singleton().findSchemaOrThrow((std::string("tensorrt::") + name).c_str(), "").callBoxed(stack);
  return stack.empty() ? c10::IValue() : stack.back();
}

void pin(const EnginePtr& engine, std::int64_t index) {
  call("set_active_profile", {engine, index});
}
void unpin(const EnginePtr& engine) {
  call("clear_active_profile", {engine});
}
std::int64_t selected(const EnginePtr& engine) {
  return call("get_active_profile", {engine}).toInt();
}
std::int64_t counter(const EnginePtr& engine, const std::string& name) {
  return call("get_profile_counters", {engine}).toGenericDict().at(name).toInt();
}

std::int64_t push(const std::vector<EnginePtr>& engines, std::vector<std::int64_t> indices) {
  c10::impl::GenericList list(torch::getCustomClass("__torch__.torch.classes.tensorrt.Engine"));
  for (const auto& engine : engines) {
    list.push_back(engine);
  }
  return call("_push_profile_scope", {std::move(list), c10::List<std::int64_t>(std::move(indices))}).toInt();
}
void pop(std::int64_t token) {
  op<void, std::int64_t>("_pop_profile_scope", token);
}

// As a `with` block.
class Scope {
 public:
  Scope(const std::vector<EnginePtr>& engines, std::int64_t index)
      : token_(push(engines, std::vector<std::int64_t>(engines.size(), index))) {}
  ~Scope() { pop(token_); }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  std::int64_t token_;
};

class ProfileSelection : public CoreTest {
 protected:
  static EnginePtr disjoint(FakeOptions options = {}) {
    options.profiles = {{2, 64}, {1, 1}, {100, 200}};
    return make_engine(std::move(options));
  }
};

TEST_F(ProfileSelection, WithoutSelectionTheEnginesOwnIndexStays) {
  const auto engine = disjoint();
  EXPECT_EQ(selected(engine), 0);
  run(engine, 2);
  engine->set_active_profile(1);
  EXPECT_EQ(selected(engine), 1);
  run(engine, 1);
  EXPECT_EQ(counter(engine, "switches"), 0);
  EXPECT_EQ(counter(engine, "runs_0"), 1);
  EXPECT_EQ(counter(engine, "runs_1"), 1);
}

TEST_F(ProfileSelection, APinTakesEffectAtTheNextCall) {
  const auto engine = disjoint();
  run(engine, 2);
  engine->log.clear();
  pin(engine, 1);
  EXPECT_EQ(engine->log, std::vector<std::string>{});
  EXPECT_EQ(selected(engine), 1);
  run(engine, 1);
  run(engine, 1);
  EXPECT_EQ(counter(engine, "switches"), 1);
  unpin(engine);
  EXPECT_EQ(selected(engine), 0);
  run(engine, 2);
  EXPECT_EQ(counter(engine, "switches"), 2);
}

TEST_F(ProfileSelection, APinHoldsAgainstWhatOthersSet) {
  const auto engine = disjoint();
  pin(engine, 1);
  run(engine, 1);
  engine->set_active_profile(2);
  run(engine, 1);
  unpin(engine);
  EXPECT_EQ(selected(engine), 2);  // which is the base since
  run(engine, 100);
}

TEST_F(ProfileSelection, ABadIndexRaisesAtTheOperator) {
  const auto engine = disjoint();
  for (const std::int64_t bad : {-1, 3, 100}) {
    const std::string message = message_of([&] { pin(engine, bad); });
    EXPECT_NE(message.find("'engine' has 3 profiles, indices 0 to 2"), std::string::npos) << message;
    EXPECT_THROW(pin(engine, bad), c10::IndexError);
    EXPECT_THROW(push({engine}, {bad}), c10::IndexError);
  }
  const auto single = make_engine();
  pin(single, 0);
  EXPECT_NE(message_of([&] { pin(single, 1); }).find("has 1 profile, index 0."), std::string::npos);
  EXPECT_THROW(push({engine}, {0, 1}), c10::ValueError);
  EXPECT_EQ(selected(engine), 0);
}

TEST_F(ProfileSelection, ScopesNestAndTheBaseComesBack) {
  const auto engine = disjoint();
  run(engine, 2);
  {
    const Scope outer({engine}, 1);
    run(engine, 1);
    {
      const Scope inner({engine}, 2);
      EXPECT_EQ(selected(engine), 2);
      run(engine, 100);
    }
    run(engine, 1);
    {
      const Scope same({engine}, 1);
      run(engine, 1);
    }
  }
  EXPECT_EQ(selected(engine), 0);
  run(engine, 2);
  EXPECT_EQ(engine->profiles_run, (std::vector<std::int64_t>{0, 1, 2, 1, 1, 0}));
  EXPECT_EQ(counter(engine, "switches"), 4);
}

TEST_F(ProfileSelection, AScopeThatIsNotUsedSwitchesNothing) {
  const auto engine = disjoint();
  run(engine, 2);
  for (int i = 0; i < 10; ++i) {
    const Scope unused({engine}, 1);
  }
  for (int i = 0; i < 10; ++i) {
    const Scope same({engine}, 0);
    run(engine, 2);
  }
  EXPECT_EQ(counter(engine, "switches"), 0);
}

TEST_F(ProfileSelection, AScopeBeatsAPinAndOtherEnginesAreLeftAlone) {
  const auto a = disjoint();
  const auto b = disjoint();
  pin(a, 2);
  pin(b, 2);
  const Scope scope({a}, 1);
  run(a, 1);
  run(b, 100);
}

TEST_F(ProfileSelection, TheIndexSetInsideOfAScopeIsTheBaseAfterIt) {
  const auto engine = disjoint();
  {
    const Scope scope({engine}, 1);
    run(engine, 1);
    engine->set_active_profile(2);
    run(engine, 1);
  }
  run(engine, 100);
}

TEST_F(ProfileSelection, AScopeHoldsTorchTensorRTsOwnChoiceOff) {
  const auto engine = disjoint();
  engine->set_auto_select_profiles(true);
  run(engine, 1);
  EXPECT_EQ(engine->profiles_run.back(), 1);
  {
    const Scope scope({engine}, 2);
    run(engine, 100);
    EXPECT_THROW(run(engine, 1), c10::Error);
    EXPECT_TRUE(engine->get_auto_select_profiles());
  }
  run(engine, 2);
  EXPECT_EQ(engine->profiles_run.back(), 0);
}

TEST_F(ProfileSelection, OutOfOrderIsAnErrorThatNamesAsyncio) {
  const auto engine = disjoint();
  const auto outer = push({engine}, {1});
  const auto inner = push({engine}, {2});
  const std::string message = message_of([&] { pop(outer); });
  EXPECT_NE(message.find("asyncio"), std::string::npos) << message;
  pop(inner);  // and nothing is left behind
  EXPECT_EQ(selected(engine), 0);
  EXPECT_THROW(pop(inner), c10::Error);
}

TEST_F(ProfileSelection, AScopeBelongsToItsThread) {
  const auto engine = disjoint();
  const auto token = push({engine}, {1});
  std::thread([&] {
    EXPECT_EQ(selected(engine), 0);
    EXPECT_THROW(pop(token), c10::Error);
  }).join();
  EXPECT_EQ(selected(engine), 1);
  pop(token);
}

TEST_F(ProfileSelection, AScopeKeepsNoEngineAlive) {
  auto engine = disjoint();
  const auto token = push({engine}, {1});
  run(engine, 1);
  engine.reset();
  EXPECT_EQ(core::runtime::live_engines(), 0);
  for (int i = 0; i < 100; ++i) {
    const auto other = disjoint();
    ASSERT_EQ(selected(other), 0);  // also at the dead one's address
  }
  pop(token);
}

TEST_F(ProfileSelection, SurvivesProfilingAndDroppedContexts) {
  const auto engine = disjoint();
  const Scope scope({engine}, 1);
  for (const bool enabled : {true, false, true, false}) {
    set_enabled(enabled);
    run(engine, 1);
    engine->use_dynamically_allocated_resources(enabled);
    run(engine, 1);
  }
  EXPECT_EQ(engine->profiles_run, std::vector<std::int64_t>(8, 1));
}

TEST_F(ProfileSelection, TwoThreadsOnDisjointProfilesWhileProfilingToggles) {
  constexpr int kCalls = 2000;
  const auto engine = disjoint();
  std::atomic<int> running{2};
  const auto work = [&](std::int64_t index, std::int64_t extent) {
    for (int i = 0; i < kCalls; ++i) {
      const Scope scope({engine}, index);
      EXPECT_TRUE(run(engine, extent).equal(at::full({extent, 3}, 2.0)));  // the wrong profile throws
    }
    --running;
  };
  std::thread prefill(work, 0, 2);
  std::thread decode(work, 1, 1);
  for (int n = 0; running > 0; ++n) {
    set_enabled(n % 2 == 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  prefill.join();
  decode.join();
  EXPECT_EQ(counter(engine, "runs_0"), kCalls);
  EXPECT_EQ(counter(engine, "runs_1"), kCalls);
  // A switch happens exactly where two calls in a row ran on different profiles.
  std::int64_t changes = engine->profiles_run.front() == 0 ? 0 : 1;
  for (std::size_t i = 1; i < engine->profiles_run.size(); ++i) {
    changes += engine->profiles_run[i] != engine->profiles_run[i - 1] ? 1 : 0;
  }
  EXPECT_EQ(counter(engine, "switches"), changes);
}

TEST_F(ProfileSelection, SwitchesGoOnTheCallersStream) {
  const FakeCuda cuda(1);
  const auto engine = disjoint();
  FakeCuda::set_current_stream(5);
  const Scope scope({engine}, 1);
  run(engine, 1);
  EXPECT_EQ(engine->log, (std::vector<std::string>{"set_active_profile 1 on stream 5"}));
}

TEST_F(ProfileSelection, ANewStreamWaitsForTheLastOne) {
  const FakeCuda cuda(1);
  const auto engine = disjoint();
  FakeCuda::set_current_stream(5);
  run(engine, 2);
  run(engine, 2);
  EXPECT_TRUE(FakeCuda::events().empty());
  FakeCuda::set_current_stream(6);
  run(engine, 2);
  run(engine, 2);
  EXPECT_EQ(FakeCuda::events(), (std::vector<std::string>{"record 5", "wait 6"}));
}

TEST_F(ProfileSelection, ASwitchWhileCapturingIsAnErrorThatSaysWhatToDo) {
  const FakeCuda cuda(1);
  const auto engine = disjoint();
  run(engine, 2);
  FakeCuda::set_capturing(true);
  run(engine, 2);
  {
    const Scope scope({engine}, 1);
    const std::string message = message_of([&] { run(engine, 1); });
    EXPECT_NE(message.find("before capturing"), std::string::npos) << message;
    FakeCuda::set_capturing(false);
    run(engine, 1);
    FakeCuda::set_capturing(true);
    run(engine, 1);
  }
}

}  // namespace
}  // namespace torch_tensorrt::profiles::testing
