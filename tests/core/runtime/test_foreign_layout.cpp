// A class of the engine's name whose members lie elsewhere: recognised without reading through a wrong pointer.
#include "core/runtime/engine_registry.h"
#include "tests/core/runtime/support/harness.h"

namespace torch_tensorrt::profiles::testing {
namespace {

using ForeignLayout = CoreTest;

TEST_F(ForeignLayout, IsLeftAloneWithOneWarning) {
  const Warnings warnings;
  for (const char* text : {"", "short", "a text that is too long to lie inside of the string object itself"}) {
    const auto engine = make_engine();
    engine->inserted = text;
    set_enabled(true);
    EXPECT_TRUE(run(engine).equal(at::full({2, 3}, 2.0)));
    EXPECT_TRUE(engine->log.empty());
  }
  ASSERT_EQ(warnings.messages().size(), 1U);
  EXPECT_NE(warnings.messages()[0].find("Torch-TensorRT 2.14"), std::string::npos) << warnings.messages()[0];
  EXPECT_TRUE(EngineRegistry::instance().live().empty());
  EXPECT_EQ(core::runtime::live_engines(), 0);
}

TEST_F(ForeignLayout, ItsOwnMethodsWork) {
  const auto engine = make_engine();
  enable_own_profiling(engine);
  set_own_format(engine, "trex");
  EXPECT_TRUE(engine->is_profiling());
  disable_own_profiling(engine);
  EXPECT_FALSE(engine->is_profiling());
  EXPECT_TRUE(EngineRegistry::instance().live().empty());
}

}  // namespace
}  // namespace torch_tensorrt::profiles::testing
