// A Torch-TensorRT that exports no member functions: all but what needs them works.
#include "tests/core/runtime/support/harness.h"

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

}  // namespace
}  // namespace torch_tensorrt::profiles::testing
