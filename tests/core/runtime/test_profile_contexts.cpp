// A context per profile: siblings that share the weights. The fake engine aborts where one runs on weights of its own,
// where a runtime or the weights die too early, and where two calls or methods overlap on one object.
#include "core/runtime/profile_contexts.h"

#include <algorithm>
#include <latch>
#include <set>
#include <thread>

#include "core/runtime/c_api.h"
#include "core/runtime/json.h"
#include "core/runtime/runtime.h"
#include "tests/core/runtime/support/fake_cuda.h"
#include "tests/core/runtime/support/harness.h"
#include "tests/core/runtime/support/selection.h"

namespace torch_tensorrt::profiles::testing {
namespace {

using Runs = std::vector<std::int64_t>;

Engine as_engine(const EnginePtr& engine) {
  return {Runtime::instance().engine_class(), c10::IValue(engine)};
}

EngineState& state_of(const EnginePtr& engine) {
  return known_engine(as_engine(engine));
}

c10::Dict<std::string, std::int64_t> make(const EnginePtr& engine) {
  return c10::impl::toTypedDict<std::string, std::int64_t>(call("_make_profile_contexts", {engine}).toGenericDict());
}

void drop(const EnginePtr& engine) {
  call("_drop_profile_contexts", {engine});
}

// As the program's owner, by TorchBind name.
void call_method(const EnginePtr& engine, const char* name, torch::jit::Stack arguments) {
  arguments.insert(arguments.begin(), engine);
  c10::IValue(engine).toObjectRef().type()->getMethod(name).run(arguments);
}

// The object that runs a profile.
EnginePtr object_for(const EnginePtr& first, std::int64_t index) {
  const auto contexts = state_of(first).contexts.get();
  const ProfileContext* const sibling = contexts == nullptr ? nullptr : contexts->at(index);
  return sibling == nullptr ? first : sibling->engine.value().toCustomClass<TRTEngine>();
}

class ProfileContextsTest : public CoreTest {
 protected:
  static constexpr std::int64_t kPrefill = 0;
  static constexpr std::int64_t kDecode = 1;
  static constexpr std::int64_t kBatch = 2;

  // Disjoint, so that the wrong profile raises.
  static EnginePtr disjoint(FakeOptions options = {}) {
    options.profiles = {{2, 64}, {1, 1}, {100, 200}};
    return make_engine(std::move(options));
  }

  // One call on each profile.
  static void run_each(const EnginePtr& engine) {
    const std::array<std::int64_t, 3> extents{2, 1, 100};
    for (const std::int64_t index : {kPrefill, kDecode, kBatch}) {
      const Scope scope({engine}, index);
      const std::int64_t extent = extents.at(static_cast<std::size_t>(index));
      EXPECT_TRUE(run(engine, extent).equal(at::full({extent, 3}, 2.0)));
    }
  }

  void TearDown() override {
    CoreTest::TearDown();
    EXPECT_EQ(core::runtime::live_engines(), 0);
    EXPECT_EQ(nvinfer1::IRuntime::alive, 0);
    EXPECT_EQ(nvinfer1::ICudaEngine::alive, 0);
    EXPECT_EQ(EngineRegistry::instance().live().size(), 0U);
  }
};

TEST_F(ProfileContextsTest, EachProfileRunsOnAnObjectOfItsOwnAndNothingIsSwitched) {
  const auto engine = disjoint();
  run(engine, 2);
  EXPECT_EQ(make(engine).at("contexts"), 2);
  EXPECT_EQ(core::runtime::live_engines(), 3);
  EXPECT_EQ(nvinfer1::ICudaEngine::alive, 1);
  EXPECT_EQ(nvinfer1::IRuntime::alive, 1);
  engine->log.clear();
  for (int i = 0; i < 5; ++i) {
    run_each(engine);
  }
  EXPECT_EQ(counter(engine, "switches"), 0);
  EXPECT_EQ(counter(engine, "runs_0"), 6);
  EXPECT_EQ(counter(engine, "runs_1"), 5);
  EXPECT_EQ(counter(engine, "runs_2"), 5);
  EXPECT_EQ(engine->profiles_run, Runs(6, kPrefill));
  EXPECT_EQ(object_for(engine, kDecode)->profiles_run, Runs(5, kDecode));
  EXPECT_EQ(object_for(engine, kBatch)->profiles_run, Runs(5, kBatch));
  EXPECT_EQ(engine->log, std::vector<std::string>{});
}

TEST_F(ProfileContextsTest, TheFirstObjectKeepsTheProfileThatItIsOn) {
  const auto engine = disjoint();
  engine->set_active_profile(kDecode);
  EXPECT_EQ(make(engine).at("home"), kDecode);
  run(engine, 1);
  run_each(engine);
  EXPECT_EQ(engine->profiles_run, Runs(2, kDecode));
  EXPECT_EQ(counter(engine, "switches"), 0);
}

TEST_F(ProfileContextsTest, TheHomeIsTheBaseWhereABlockHasSwitchedTheEngine) {
  const auto engine = disjoint();
  {
    const Scope scope({engine}, kDecode);
    run(engine, 1);
  }
  EXPECT_EQ(make(engine).at("home"), kPrefill);
  for (int i = 0; i < 5; ++i) {
    run(engine, 2);
    run_each(engine);
  }
  EXPECT_EQ(counter(engine, "switches"), 2);  // into the block, and once back
}

TEST_F(ProfileContextsTest, CallsOnTwoProfilesOverlap) {
  const auto engine = disjoint();
  make(engine);
  std::latch both_inside(2);
  const auto meet = [&both_inside] { both_inside.arrive_and_wait(); };
  engine->during_execute = meet;
  object_for(engine, kDecode)->during_execute = meet;
  std::thread decode([&] {
    const Scope scope({engine}, kDecode);
    EXPECT_TRUE(run(engine, 1).equal(at::full({1, 3}, 2.0)));
  });
  run(engine, 2);  // returns only once both are inside
  decode.join();
}

TEST_F(ProfileContextsTest, APinAndTheOperatorsGoOnWorking) {
  const auto engine = disjoint();
  make(engine);
  pin(engine, kDecode);
  EXPECT_EQ(selected(engine), kDecode);
  run(engine, 1);
  EXPECT_EQ(object_for(engine, kDecode)->profiles_run, Runs(1, kDecode));
  {
    const Scope scope({engine}, kBatch);
    EXPECT_EQ(selected(engine), kBatch);
    EXPECT_EQ(explain(engine, std::nullopt).first, kBatch);
    run(engine, 100);
  }
  unpin(engine);
  EXPECT_EQ(selected(engine), kPrefill);
  run(engine, 2);
  EXPECT_THROW(pin(engine, 3), c10::IndexError);
  EXPECT_EQ(counter(engine, "switches"), 0);
}

TEST_F(ProfileContextsTest, TheFirstObjectIsLeftToTorchTensorRTsOwnSelection) {
  const auto engine = disjoint();
  make(engine);
  engine->set_active_profile(kBatch);
  run(engine, 100);
  EXPECT_EQ(engine->profiles_run, Runs(1, kBatch));
  engine->set_auto_select_profiles(true);
  run(engine, 1);
  EXPECT_EQ(engine->profiles_run.back(), kDecode);
}

TEST_F(ProfileContextsTest, ABlockThatCoversHiddenEnginesPicksTheObjectToo) {
  const auto engine = disjoint();
  make(engine);
  const auto outer = push({}, {}, kBatch);
  {
    const Scope inner({engine}, kDecode);
    run(engine, 1);  // the sibling is not of the outer block
  }
  run(engine, 100);
  pop(outer);
  EXPECT_EQ(counter(engine, "runs_1"), 1);
  EXPECT_EQ(counter(engine, "runs_2"), 1);
  EXPECT_EQ(counter(engine, "switches"), 0);
}

TEST_F(ProfileContextsTest, ByShapeAndFallbackPickTheObject) {
  const auto engine = recorded({{2, 64}, {1, 1}, {100, 200}});
  make(engine);
  {
    const Scope scope({engine}, kByShape);
    for (const std::int64_t extent : {1, 100, 2, 1}) {
      run(engine, extent);
    }
    EXPECT_NE(message_of([&] { run(engine, 80); }).find("takes"), std::string::npos);
  }
  {
    const Warnings warnings;
    const Scope scope({engine}, kDecode, true);
    run(engine, 1);
    run(engine, 5);
    run(engine, 6);
    EXPECT_EQ(warnings.messages().size(), 1U);
  }
  EXPECT_EQ(object_for(engine, kDecode)->profiles_run, Runs(3, kDecode));
  EXPECT_EQ(object_for(engine, kBatch)->profiles_run, Runs(1, kBatch));
  EXPECT_EQ(engine->profiles_run, Runs(3, kPrefill));
  EXPECT_EQ(counter(engine, "switches"), 0);
}

TEST_F(ProfileContextsTest, AShapeThatDoesNotFitNamesEverything) {
  const auto engine = recorded({{2, 64}, {1, 1}});
  make(engine);
  const Scope scope({engine}, kDecode);
  const std::string message = message_of([&] { run(engine, 7); });
  EXPECT_NE(message.find("input 'x' has shape [7, 3], but optimization profile 1 'b' takes [1, 3]"), std::string::npos)
      << message;
  run(engine, 1);
}

TEST_F(ProfileContextsTest, ATorchTensorRTErrorNamesTheSiblingsProfile) {
  const auto engine = disjoint();
  make(engine);
  const Scope scope({engine}, kDecode);
  const std::string message = message_of([&] { run(engine, 7); });
  EXPECT_NE(message.find("optimization profile 1"), std::string::npos) << message;
}

// Lifetime

TEST_F(ProfileContextsTest, EverythingDiesWithTheFirstObject) {
  auto engine = disjoint();
  make(engine);
  run_each(engine);
  const auto free = nvinfer1::DeviceMemory::free.load();
  engine.reset();
  EXPECT_EQ(core::runtime::live_engines(), 0);
  EXPECT_EQ(nvinfer1::ICudaEngine::alive, 0);
  EXPECT_EQ(nvinfer1::DeviceMemory::free, free + 1000 + (std::int64_t{3} * 10));
}

TEST_F(ProfileContextsTest, TheLastReferenceMayBeOnTheStack) {
  auto engine = disjoint();
  make(engine);
  pin(engine, kDecode);
  torch::jit::Stack stack{c10::List<at::Tensor>({at::ones({1, 3})}), std::move(engine)};
  c10::Dispatcher::singleton().findSchemaOrThrow("tensorrt::execute_engine", "").callBoxed(stack);
  EXPECT_TRUE(stack.at(0).toTensorVector().at(0).equal(at::full({1, 3}, 2.0)));
  EXPECT_EQ(core::runtime::live_engines(), 0);
}

TEST_F(ProfileContextsTest, UsesAreCounted) {
  const auto engine = disjoint();
  make(engine);
  make(engine);
  drop(engine);
  EXPECT_EQ(core::runtime::live_engines(), 3);
  run_each(engine);
  drop(engine);
  EXPECT_EQ(core::runtime::live_engines(), 1);
  drop(engine);  // one too many does nothing
  run_each(engine);
  EXPECT_EQ(counter(engine, "switches"), 2);
  EXPECT_EQ(counter(engine, "runs_0"), 2);  // those of the siblings are kept
  EXPECT_EQ(counter(engine, "runs_1"), 2);
  make(engine);
  EXPECT_EQ(core::runtime::live_engines(), 3);
}

TEST_F(ProfileContextsTest, AnEngineWithOneProfileIsLeftAlone) {
  const auto engine = make_engine();
  EXPECT_EQ(make(engine).at("contexts"), 0);
  EXPECT_EQ(core::runtime::live_engines(), 1);
  run(engine);
  drop(engine);
  run(engine);
}

TEST_F(ProfileContextsTest, DroppedWhileACallIsInside) {
  const auto engine = disjoint();
  make(engine);
  std::latch inside(1);
  std::latch dropping(1);
  object_for(engine, kDecode)->during_execute = [&] {
    inside.count_down();
    dropping.wait();
  };
  std::thread caller([&] {
    const Scope scope({engine}, kDecode);
    run(engine, 1);
    run(engine, 1);  // on the first object by now
  });
  inside.wait();
  std::thread dropper([&] { drop(engine); });
  while (state_of(engine).contexts.get() != nullptr) {
    std::this_thread::yield();
  }
  dropping.count_down();
  caller.join();
  dropper.join();
  EXPECT_EQ(core::runtime::live_engines(), 1);
  EXPECT_EQ(counter(engine, "runs_1"), 2);
  EXPECT_EQ(engine->profiles_run, Runs(1, kDecode));
}

TEST_F(ProfileContextsTest, MadeAndDroppedWhileThreadsCall) {
  constexpr int kCalls = 500;
  const auto engine = recorded({{2, 64}, {1, 1}});
  std::atomic<int> running{3};
  const auto work = [&](std::int64_t index, std::int64_t extent) {
    for (int i = 0; i < kCalls; ++i) {
      const Scope scope({engine}, index);
      EXPECT_TRUE(run(engine, extent).equal(at::full({extent, 3}, 2.0)));
    }
    --running;
  };
  std::thread prefill(work, kPrefill, 2);
  std::thread decode(work, kDecode, 1);
  std::thread by_shape([&] {
    for (int i = 0; i < kCalls; ++i) {
      const Scope scope({engine}, kByShape);
      const std::int64_t extent = 1 + (i % 2);
      EXPECT_TRUE(run(engine, extent).equal(at::full({extent, 3}, 2.0)));
    }
    --running;
  });
  for (int n = 0; running > 0; ++n) {
    make(engine);
    set_enabled(n % 2 == 0);
    call_method(engine, "update_runtime_settings", {n % 3, 0, c10::IValue()});
    op<std::string>("dump_engine_timing");
    EXPECT_LE(nvinfer1::ICudaEngine::alive, 1);
    drop(engine);
  }
  prefill.join();
  decode.join();
  by_shape.join();
  EXPECT_EQ(counter(engine, "runs_0") + counter(engine, "runs_1"), 3 * kCalls);
}

// Memory

TEST_F(ProfileContextsTest, ReportsWhatItTook) {
  const FakeCuda cuda(1);
  const auto engine = disjoint();
  run(engine, 2);
  const auto report = make(engine);
  EXPECT_EQ(report.at("device_bytes"), 2 * 10);  // activations alone
  EXPECT_EQ(report.at("peak_device_bytes"), 1000 + 10);
  EXPECT_GT(report.at("plan_bytes"), 0);
}

TEST_F(ProfileContextsTest, ReportsNoMemoryWhereNobodyTells) {
  const auto engine = disjoint();
  EXPECT_FALSE(make(engine).contains("device_bytes"));
}

TEST_F(ProfileContextsTest, TooLittleMemoryLeavesEverythingAsItWas) {
  const auto before = nvinfer1::DeviceMemory::free.load();
  const FakeCuda cuda(1);
  struct Case {
    std::int64_t activation_bytes;
    std::int64_t free;
  };
  // No copy of the weights; no context; no copy of the weights beside the first sibling's context.
  for (const Case scarce : {Case{10, 5}, Case{2000, 1500}, Case{10, 1005}}) {
    FakeOptions options;
    options.activation_bytes = scarce.activation_bytes;
    const auto engine = disjoint(options);
    run(engine, 2);
    nvinfer1::DeviceMemory::free = scarce.free;
    const std::string message = message_of([&] { make(engine); });
    EXPECT_NE(message.find("engine 'engine' gets no context per profile, and stays as it is"), std::string::npos)
        << message;
    EXPECT_NE(message.find(std::to_string(scarce.free) + " bytes of the device's memory were free"), std::string::npos)
        << message;
    EXPECT_EQ(nvinfer1::DeviceMemory::free, scarce.free);
    EXPECT_EQ(core::runtime::live_engines(), 1);
    drop(engine);
    run(engine, 2);
    nvinfer1::DeviceMemory::free = 10'000;
    EXPECT_EQ(make(engine).at("contexts"), 2);
    run_each(engine);
  }
  nvinfer1::DeviceMemory::free = before;
}

TEST_F(ProfileContextsTest, RefusedWithTheReason) {
  FakeOptions options;
  options.requires_native_multidevice = true;
  const auto distributed = disjoint(options);
  EXPECT_NE(message_of([&] { make(distributed); }).find("NCCL"), std::string::npos);
  options.requires_native_multidevice = false;
  options.streamable_weights = 4096;
  const auto streaming = disjoint(options);
  EXPECT_NE(message_of([&] { make(streaming); }).find("may stream 4096 bytes"), std::string::npos);
  const FakeCuda cuda(1);
  FakeCuda::set_capturing(true);
  const auto engine = disjoint();
  EXPECT_NE(message_of([&] { make(engine); }).find("before capturing"), std::string::npos);
  EXPECT_EQ(core::runtime::live_engines(), 3);
  FakeCuda::set_capturing(false);
  make(engine);
}

// Streams

TEST_F(ProfileContextsTest, StreamsOfDifferentProfilesDoNotWaitForEachOther) {
  const FakeCuda cuda(1);
  const auto engine = disjoint();
  make(engine);
  for (int i = 0; i < 3; ++i) {
    FakeCuda::set_current_stream(5);
    run(engine, 2);
    FakeCuda::set_current_stream(6);
    const Scope scope({engine}, kDecode);
    run(engine, 1);
  }
  EXPECT_EQ(FakeCuda::events(), std::vector<std::string>{});
  FakeCuda::set_capturing(true);
  const Scope scope({engine}, kDecode);
  run(engine, 1);  // nothing to switch
  FakeCuda::set_capturing(false);
  drop(engine);
  EXPECT_EQ(FakeCuda::events(), std::vector<std::string>{"synchronize 6"});  // before its context goes
}

// What the first object is set to

TEST_F(ProfileContextsTest, RuntimeSettingsAreReadBack) {
  const auto engine = disjoint();
  const auto read = [&engine] {
    torch::jit::Stack stack{engine};
    c10::Dispatcher::singleton().findSchemaOrThrow("tensorrt::_get_runtime_settings", "").callBoxed(stack);
    return stack.at(0).toList();
  };
  EXPECT_EQ(read().size(), 0U);
  call_method(engine, "update_runtime_settings", {2, 1, c10::IValue()});
  ASSERT_EQ(read().size(), 3U);
  EXPECT_EQ(read().get(0).toInt(), 2);
  EXPECT_EQ(read().get(1).toInt(), 1);
  EXPECT_TRUE(read().get(2).isNone());
}

TEST_F(ProfileContextsTest, SettingsAreMirroredWhenMadeAndAfterwards) {
  const auto engine = disjoint();
  call_method(engine, "update_runtime_settings", {2, 0, c10::IValue()});
  call_method(engine, "use_dynamically_allocated_resources", {true});
  engine->use_pre_allocated_outputs = true;
  make(engine);
  const auto decode = object_for(engine, kDecode);
  const Scope scope({engine}, kDecode);
  run(engine, 1);
  EXPECT_EQ(decode->runtime_settings(), 2);
  EXPECT_TRUE(decode->has_dynamic_resources());
  EXPECT_TRUE(decode->use_pre_allocated_outputs);
  EXPECT_FALSE(decode->output_tensors_are_unowned);
  EXPECT_EQ(decode->num_execution_contexts_created(), 1);  // made with its settings

  call_method(engine, "update_runtime_settings", {1, 0, c10::IValue()});
  call_method(engine, "use_dynamically_allocated_resources", {false});
  engine->use_pre_allocated_outputs = false;
  engine->use_output_allocator_outputs = true;
  engine->output_tensors_are_unowned = true;
  run(engine, 1);
  EXPECT_EQ(decode->runtime_settings(), 1);
  EXPECT_FALSE(decode->has_dynamic_resources());
  EXPECT_FALSE(decode->use_pre_allocated_outputs);
  EXPECT_TRUE(decode->use_output_allocator_outputs);
  EXPECT_TRUE(decode->output_tensors_are_unowned);
  EXPECT_EQ(decode->profiles_run, Runs(2, kDecode));
  EXPECT_EQ(counter(engine, "switches"), 0);
}

TEST_F(ProfileContextsTest, ContextNumbersCoverEveryContext) {
  const auto engine = disjoint();
  run(engine, 2);
  const auto numbers = [&] { return call("_context_numbers", {list_of({engine})}).toIntVector(); };
  const auto first = numbers();
  ASSERT_EQ(first.size(), 1U);
  make(engine);
  const auto all = numbers();
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all.front(), first.front());
  run_each(engine);
  EXPECT_EQ(numbers(), all);
  call_method(engine, "use_dynamically_allocated_resources", {true});
  EXPECT_EQ(numbers(), Runs(3, -1));
  run_each(engine);
  const auto renewed = numbers();
  EXPECT_EQ(std::ranges::find_first_of(renewed, all), renewed.end());
  drop(engine);
  EXPECT_EQ(numbers(), Runs(1, renewed.front()));
}

// Profiling

TEST_F(ProfileContextsTest, ProfilingCoversSiblingsAndNamesTheirProfile) {
  const auto engine = recorded({{2, 64}, {1, 1}});
  const auto unnamed = [] {
    FakeOptions options;
    options.name = "unnamed";
    return disjoint(options);
  }();
  make(engine);
  make(unnamed);
  set_enabled(true);
  run(engine, 2);
  {
    const Scope scope({engine, unnamed}, kDecode);
    run(engine, 1);
    run(unnamed, 1);
  }
  const std::string pid = std::to_string(::getpid());
  const std::string of_sibling = folder("engine." + pid + ".b");
  EXPECT_TRUE(json::parse(read(folder("engine_engine_execution_profile.trace"))).has_value());
  EXPECT_TRUE(json::parse(read(of_sibling + "/engine_engine_execution_profile.trace")).has_value());
  EXPECT_TRUE(std::filesystem::exists(folder("unnamed." + pid + ".profile_1")));
  const std::string engines = read(folder("engines." + pid + ".json"));
  EXPECT_NE(engines.find(
                R"("folder": ".", "format": "perfetto", "rank": null, "profile_names": ["a", "b"], "profile": "a"})"),
            std::string::npos)
      << engines;
  EXPECT_NE(engines.find(R"("profile": "b"})"), std::string::npos) << engines;

  set_enabled(false);
  EXPECT_TRUE(object_for(engine, kDecode)->is_profiling());  // until its next call
  const Scope scope({engine}, kDecode);
  run(engine, 1);
  EXPECT_FALSE(object_for(engine, kDecode)->is_profiling());
  EXPECT_EQ(object_for(engine, kDecode)->profiles_run, Runs(2, kDecode));
}

TEST_F(ProfileContextsTest, TimingsAreOfTheProfilesAndStayWhenTheSiblingsGo) {
  const auto engine = recorded({{2, 64}, {1, 1}});
  make(engine);
  set_enabled(true);
  const auto rows = [] {
    std::multiset<std::string> found;
    const auto report = json::parse(op<std::string>("dump_engine_timing"));
    for (const auto& row : std::get<json::Array>(report->data)) {
      found.insert(std::get<std::string>(row.find("profile")->data) + " " +
                   std::get<std::string>(row.find("layer")->data));
    }
    return found;
  };
  run(engine, 2);
  {
    const Scope scope({engine}, kDecode);
    run(engine, 1);
  }
  const std::multiset<std::string> expected{"a conv", "a relu", "b conv", "b relu"};
  EXPECT_EQ(rows(), expected);
  drop(engine);
  EXPECT_EQ(rows(), expected);
  EXPECT_NE(read(folder("engines." + std::to_string(::getpid()) + ".json")).find(R"("profile": "a")"),
            std::string::npos);
  run(engine, 2);  // which tells anew what it is for
  EXPECT_EQ(read(folder("engines." + std::to_string(::getpid()) + ".json")).find(R"("profile": "a")"),
            std::string::npos);
}

TEST_F(ProfileContextsTest, MadeWhileProfiled) {
  const auto engine = recorded({{2, 64}, {1, 1}});
  set_enabled(true);
  run(engine, 2);
  make(engine);
  run(engine, 2);
  const Scope scope({engine}, kDecode);
  run(engine, 1);
  EXPECT_EQ(engine->profiled_calls, 2);
  EXPECT_EQ(object_for(engine, kDecode)->profiled_calls, 1);
}

TEST_F(ProfileContextsTest, AContextThatWasDroppedComesBackOnItsProfile) {
  const auto engine = disjoint();
  make(engine);
  for (const bool enabled : {true, false, true, false}) {
    set_enabled(enabled);
    call_method(engine, "use_dynamically_allocated_resources", {enabled});
    run_each(engine);
  }
  EXPECT_EQ(object_for(engine, kBatch)->profiles_run, Runs(4, kBatch));
  EXPECT_EQ(counter(engine, "switches"), 0);
}

TEST_F(ProfileContextsTest, CapturedGraphsStayWhileProfilesAlternate) {
  const auto engine = disjoint();
  make(engine);
  op<void, std::int64_t>("set_cudagraphs_mode", 1);
  for (int i = 0; i < 4; ++i) {
    run_each(engine);
  }
  op<void, std::int64_t>("set_cudagraphs_mode", 0);
  for (const std::int64_t index : {kPrefill, kDecode, kBatch}) {
    EXPECT_EQ(object_for(engine, index)->captures, 1);
    EXPECT_EQ(object_for(engine, index)->replays, 4);
  }
}

TEST_F(ProfileContextsTest, SurvivesDeactivation) {
  const auto engine = disjoint();
  make(engine);
  ASSERT_EQ(torchtrt_profiles_deactivate(), nullptr);
  run(engine, 2);
  ASSERT_EQ(torchtrt_profiles_activate(), nullptr);
  run_each(engine);
  EXPECT_EQ(counter(engine, "switches"), 0);
}

}  // namespace
}  // namespace torch_tensorrt::profiles::testing
