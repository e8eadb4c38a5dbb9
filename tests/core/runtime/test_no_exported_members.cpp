// A Torch-TensorRT that exports no member functions: all but what needs them works.
#include "tests/core/runtime/support/harness.h"
#include "tests/core/runtime/support/selection.h"

namespace torch_tensorrt::profiles::testing {
namespace {

using NoExportedMembers = CoreTest;

TEST_F(NoExportedMembers, ProfilingWorks) {
  const auto engine = make_engine();
  for (const bool enabled : {true, false, true, false}) {
    set_enabled(enabled);
    run(engine);
    EXPECT_EQ(engine->is_profiling(), enabled);
  }
  EXPECT_EQ(engine->profiled_calls, 2);
}

TEST_F(NoExportedMembers, AnOwnersMethodsAreSeen) {
  const auto engine = make_engine();
  set_enabled(true);
  run(engine);
  disable_own_profiling(engine);
  run(engine);
  EXPECT_FALSE(engine->is_profiling());
  set_format("trex");  // the fake aborts on a format without a profiler
  run(engine);
  enable_own_profiling(engine);
  run(engine);
  set_enabled(false);
  run(engine);
  EXPECT_TRUE(engine->is_profiling());
}

TEST_F(NoExportedMembers, AProfileOtherThan0IsRefused) {
  FakeOptions options;
  options.profiles = {{2, 64}, {1, 1}};
  const auto engine = make_engine(options);
  const auto pin = [&engine](std::int64_t index) {
    torch::jit::Stack stack{engine, index};
    c10::Dispatcher::singleton().findSchemaOrThrow("tensorrt::set_active_profile", "").callBoxed(stack);
  };
  EXPECT_NO_THROW(pin(0));
  EXPECT_NE(message_of([&] { pin(1); }).find("does not export"), std::string::npos);
  run(engine, 2);
}

TEST_F(NoExportedMembers, AContextPerProfileIsRefused) {
  FakeOptions options;
  options.profiles = {{2, 64}, {1, 1}};
  const auto engine = make_engine(options);
  EXPECT_NE(message_of([&] { call("_make_profile_contexts", {engine}); }).find("does not export"), std::string::npos);
  run(engine, 2);
}

}  // namespace
}  // namespace torch_tensorrt::profiles::testing
