// Which profile a call runs on, per thread; switches, streams and counters.
#include <thread>

#include "tests/core/runtime/support/fake_cuda.h"
#include "tests/core/runtime/support/harness.h"
#include "tests/core/runtime/support/selection.h"

namespace torch_tensorrt::profiles::testing {
namespace {

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
    EXPECT_THROW(push({engine}, {bad == kByShape ? -2 : bad}), c10::IndexError);
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

// As Python calls it: through the class, where the engine's own method would be a plain call in C++.
void set_through_class(const EnginePtr& engine, std::int64_t index) {
  torch::jit::Stack stack{engine, index};
  torch::getCustomClass("__torch__.torch.classes.tensorrt.Engine")->getMethod("set_active_profile").run(stack);
}

TEST_F(ProfileSelection, TheIndexThatABlockHasLeftTheEngineOnIsTheBaseOnceItIsSet) {
  const auto engine = disjoint();
  run(engine, 2);
  {
    const Scope scope({engine}, 1);
    run(engine, 1);
  }
  set_through_class(engine, 1);  // where the engine is
  EXPECT_EQ(selected(engine), 1);
  run(engine, 1);
  {
    const Scope scope({engine}, 1);
    set_through_class(engine, 1);
    run(engine, 1);
  }
  run(engine, 1);
  EXPECT_EQ(counter(engine, "switches"), 1);
}

TEST_F(ProfileSelection, AMessageThatMayGetLostIsWarnedOf) {
  const auto engine = recorded({{2, 64}});
  const Warnings warnings;
  EXPECT_THROW(run(engine, 70), c10::ValueError);
  ASSERT_EQ(warnings.messages().size(), 1);  // there is no Python here, so nobody can tell
  EXPECT_NE(warnings.messages()[0].find("input 'x' has shape [70, 3]"), std::string::npos);
  EXPECT_EQ(warnings.messages()[0].find("frame #"), std::string::npos);
}

TEST_F(ProfileSelection, ContextsAreNumberedOnce) {
  const auto number = [](const EnginePtr& engine) {
    return call("_context_numbers", {list_of({engine})}).toIntVector().at(0);
  };
  const auto a = disjoint();
  const auto b = disjoint();
  EXPECT_EQ(number(a), -1);
  run(a, 2);
  run(b, 2);
  const std::int64_t first = number(a);
  EXPECT_NE(first, number(b));
  run(a, 2);
  EXPECT_EQ(number(a), first);
  a->use_dynamically_allocated_resources(true);
  EXPECT_EQ(number(a), -1);
  run(a, 2);
  EXPECT_NE(number(a), first);
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

TEST_F(ProfileSelection, AutoIsThePinnedOrBaseProfileIfItFitsElseTheFirstThatDoes) {
  const auto engine = recorded({{2, 64}, {1, 1}, {32, 200}});
  const Scope scope({engine}, kByShape);
  for (const std::int64_t extent : {1, 40, 1, 100, 40}) {
    run(engine, extent);
  }
  pin(engine, 2);
  run(engine, 40);
  run(engine, 2);
  EXPECT_EQ(engine->profiles_run, (std::vector<std::int64_t>{1, 0, 1, 2, 0, 2, 0}));
}

TEST_F(ProfileSelection, AutoIsPerThreadAndLeavesTheBaseAlone) {
  const auto engine = recorded({{2, 64}, {1, 1}});
  {
    const Scope scope({engine}, kByShape);
    run(engine, 1);
    EXPECT_FALSE(engine->get_auto_select_profiles());
    std::thread([&] { EXPECT_THROW(run(engine, 1), c10::ValueError); }).join();
  }
  EXPECT_EQ(selected(engine), 0);
  run(engine, 2);
}

TEST_F(ProfileSelection, AutoWithoutARecordIsTorchTensorRTs) {
  const auto engine = disjoint();
  {
    const Scope pinned({engine}, 0);
    EXPECT_THROW(run(engine, 1), c10::Error);
  }
  const Scope scope({engine}, kByShape);
  run(engine, 1);  // the shape of the failed call, which Torch-TensorRT takes as seen
  run(engine, 100);
  EXPECT_THROW(run(engine, 70), c10::Error);
  run(engine, 1);
  EXPECT_EQ(engine->profiles_run, (std::vector<std::int64_t>{1, 2, 1}));
  EXPECT_FALSE(engine->get_auto_select_profiles());
  EXPECT_EQ(selected(engine), 1);
}

TEST_F(ProfileSelection, TorchTensorRTsChoiceInsideOfABlockIsNoNewBase) {
  const auto engine = disjoint();
  {
    const Scope scope({engine}, kByShape);
    run(engine, 1);
  }
  EXPECT_EQ(selected(engine), 0);
  run(engine, 2);
}

TEST_F(ProfileSelection, AnIndexInsideOfAutoAndTheReverse) {
  const auto engine = recorded({{2, 64}, {1, 1}, {32, 200}});
  const Scope automatic({engine}, kByShape);
  {
    const Scope index({engine}, 2);
    run(engine, 40);
    {
      const Scope inner({engine}, kByShape);
      run(engine, 40);
    }
  }
  EXPECT_EQ(engine->profiles_run, (std::vector<std::int64_t>{2, 0}));
}

TEST_F(ProfileSelection, AMisfitNamesInputShapeProfileRangeAndWhatWouldFit) {
  const auto engine = recorded({{2, 64}, {1, 1}});
  const Scope scope({engine}, 1);
  const std::string message = message_of([&] { run(engine, 40); });
  EXPECT_THROW(run(engine, 40), c10::ValueError);
  for (const char* part : {"engine 'engine'", "input 'x' has shape [40, 3]", "optimization profile 1 'b' takes [1, 3]",
                           "axis 0: 40 is not 1", "profile 0 'a' would fit", "optimization_profile(program, \"a\")"}) {
    EXPECT_NE(message.find(part), std::string::npos) << part << " is not in: " << message;
  }
  const std::string gap = message_of([&] { run(engine, 70); });
  EXPECT_NE(gap.find("No profile of the engine takes it"), std::string::npos) << gap;
  EXPECT_TRUE(engine->profiles_run.empty());
  run(engine, 1);
}

TEST_F(ProfileSelection, AShapeInTheGapNamesEveryProfile) {
  const auto engine = recorded({{2, 64}, {100, 200}});
  const Scope scope({engine}, kByShape);
  const std::string message = message_of([&] { run(engine, 70); });
  EXPECT_NE(message.find("profile 0 'a' takes [2..64, 3] (axis 0: 70 is not in 2..64)"), std::string::npos) << message;
  EXPECT_NE(message.find("profile 1 'b' takes [100..200, 3]"), std::string::npos) << message;
}

TEST_F(ProfileSelection, AnEngineWithOneNamedProfileRefusesWhatIsOutside) {
  const auto engine = recorded({{2, 64}});
  EXPECT_NE(message_of([&] { run(engine, 70); }).find("the engine's only profile"), std::string::npos);
  run(engine, 2);
}

TEST_F(ProfileSelection, WithoutARecordTheErrorSaysWhichProfile) {
  const auto engine = disjoint();
  const Scope scope({engine}, 1);
  const std::string message = message_of([&] { run(engine, 40); });
  EXPECT_NE(message.find("does not fit"), std::string::npos) << message;
  EXPECT_NE(message.find("was to run on optimization profile 1 of 3"), std::string::npos) << message;
}

TEST_F(ProfileSelection, AFallbackIsForTheCallAndSaidOncePerBlock) {
  const auto engine = recorded({{2, 64}, {1, 1}});
  const Warnings warnings;
  for (int i = 0; i < 2; ++i) {
    const Scope scope({engine}, 1, true);
    run(engine, 1);
    run(engine, 40);
    run(engine, 40);
    run(engine, 1);
  }
  EXPECT_EQ(engine->profiles_run, (std::vector<std::int64_t>{1, 0, 0, 1, 1, 0, 0, 1}));
  ASSERT_EQ(warnings.messages().size(), 2);
  EXPECT_NE(warnings.messages()[0].find("profile 0 'a' is the first that takes the shapes"), std::string::npos);
  const Scope scope({engine}, 1, true);
  EXPECT_THROW(run(engine, 70), c10::ValueError);
}

TEST_F(ProfileSelection, AScopeOverAllTheThreadsEngines) {
  const auto listed = disjoint();
  const auto other = disjoint();
  const auto single = make_engine();
  FakeOptions two;
  two.profiles = {{2, 64}, {1, 1}};
  const auto fewer = make_engine(two);
  const auto token = push({listed}, {1}, std::int64_t{2});
  run(listed, 1);
  run(other, 100);
  run(single, 5);
  EXPECT_NE(message_of([&] { run(fewer, 1); }).find("has 2 profiles, indices 0 to 1"), std::string::npos);
  pop(token);
  EXPECT_THROW(push({}, {}, std::int64_t{-2}), c10::IndexError);
}

TEST_F(ProfileSelection, AScopeTakesEnginesThatCameLater) {
  const auto first = disjoint();
  const auto token = push({first}, {1});
  const auto later = disjoint();
  call("_extend_profile_scope", {token, list_of({later}), c10::List<std::int64_t>({1})});
  run(later, 1);
  pop(token);
  EXPECT_EQ(selected(later), 0);
  EXPECT_THROW(call("_extend_profile_scope", {token, list_of({later}), c10::List<std::int64_t>({1})}), c10::Error);
}

TEST_F(ProfileSelection, APreparedScopeIsOpenedAnyNumberOfTimes) {
  const auto engine = disjoint();
  const std::int64_t number =
      call("_prepare_profile_scope", {list_of({engine}), c10::List<std::int64_t>({1}), c10::IValue(), false}).toInt();
  const auto open = [number] { return op<std::int64_t, std::int64_t>("_push_prepared_profile_scope", number); };
  EXPECT_EQ(selected(engine), 0);
  const auto outer = open();
  const auto inner = open();
  run(engine, 1);
  pop(inner);
  EXPECT_EQ(selected(engine), 1);
  op<void, std::int64_t>("_forget_profile_scope", number);
  EXPECT_EQ(selected(engine), 1);  // an open one goes on
  pop(outer);
  EXPECT_EQ(selected(engine), 0);
  EXPECT_THROW(open(), c10::Error);
  op<void, std::int64_t>("_forget_profile_scope", number);
}

TEST_F(ProfileSelection, ExplainSaysWhichAndWhyWithoutRunning) {
  const auto engine = recorded({{2, 64}, {1, 1}});
  const auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  auto [index, why] = explain(engine, 2);
  EXPECT_EQ(index, 0);
  EXPECT_TRUE(has(why, "0 'a' is what the engine is set to")) << why;
  std::tie(index, why) = explain(engine, 1);
  EXPECT_EQ(index, -1);
  EXPECT_TRUE(has(why, "profile 1 'b' would fit")) << why;
  pin(engine, 1);
  EXPECT_TRUE(has(explain(engine, 1).second, "pinned by set_active_profile"));
  {
    const Scope scope({engine}, kByShape);
    EXPECT_TRUE(has(explain(engine, 1).second, "the pinned one"));
    std::tie(index, why) = explain(engine, 2);
    EXPECT_EQ(index, 0);
    EXPECT_TRUE(has(why, "first declared")) << why;
  }
  const Scope scope({engine}, 1, true);
  std::tie(index, why) = explain(engine, 2);
  EXPECT_EQ(index, 0);
  EXPECT_TRUE(has(why, "lets another run")) << why;
  std::tie(index, why) = explain(engine, std::nullopt);
  EXPECT_EQ(index, 1);
  EXPECT_TRUE(has(why, "innermost optimization_profile() block")) << why;
  EXPECT_TRUE(engine->profiles_run.empty());
  EXPECT_EQ(counter(engine, "switches"), 0);
}

}  // namespace
}  // namespace torch_tensorrt::profiles::testing
