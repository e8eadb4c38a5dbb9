#include <gtest/gtest.h>

#include "core/runtime/json.h"
#include "core/runtime/layer_timings.h"
#include "tests/core/runtime/support/harness.h"
#include "tests/core/runtime/support/selection.h"

namespace torch_tensorrt::profiles::testing {
namespace {

TEST(LayerTimings, WhatACallAddedGoesToItsProfile) {
  LayerTimings timings;
  timings.add_call(0, {{"a", 1.0, 1}, {"b", 2.0, 1}});
  timings.add_call(1, {{"a", 1.0, 1}, {"b", 5.0, 2}});
  timings.add_call(0, {{"a", 4.0, 2}, {"b", 5.0, 2}});
  const auto& rows = timings.rows();
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].layer, "a");
  EXPECT_EQ(rows[0].count, 2);
  EXPECT_DOUBLE_EQ(rows[0].total_ms, 4.0);
  EXPECT_EQ(rows[1].profile, 0);
  EXPECT_DOUBLE_EQ(rows[1].total_ms, 2.0);
  EXPECT_EQ(rows[2].profile, 1);
  EXPECT_EQ(rows[2].layer, "b");
  EXPECT_DOUBLE_EQ(rows[2].total_ms, 3.0);
}

TEST(LayerTimings, WithoutCountsALayerRunsInEachCallOfItsProfile) {
  LayerTimings timings;
  timings.add_call(0, {{"a", 1.0, 0}});
  timings.add_call(0, {{"a", 1.0, 0}});  // too short to show in the rounded total
  timings.add_call(1, {{"a", 1.0, 0}, {"b", 2.0, 0}});
  ASSERT_EQ(timings.rows().size(), 2U);
  EXPECT_EQ(timings.rows()[0].count, 2);
  EXPECT_EQ(timings.rows()[1].layer, "b");
  EXPECT_EQ(timings.rows()[1].count, 1);
}

TEST(LayerTimings, AReportWithCountsAfterOneWithoutAddsOnlyTheNewCalls) {
  LayerTimings timings;
  timings.add_call(0, {{"a", 1.0, 0}});
  timings.add_call(0, {{"a", 2.0, 0}});
  timings.add_call(0, {{"a", 3.0, 3}});
  EXPECT_EQ(timings.rows().at(0).count, 3);
  EXPECT_DOUBLE_EQ(timings.rows().at(0).total_ms, 3.0);
}

TEST(LayerTimings, ANewProfilerStartsAtNothing) {
  LayerTimings timings;
  timings.add_call(0, {{"a", 3.0, 1}});
  timings.on_new_profiler();
  timings.add_call(0, {{"a", 4.0, 1}});
  timings.add_call(0, {{"a", 1.0, 1}});  // somebody else made one
  EXPECT_EQ(timings.rows().at(0).count, 3);
  EXPECT_DOUBLE_EQ(timings.rows().at(0).total_ms, 8.0);
}

class DumpEngineTiming : public CoreTest {
 protected:
  static json::Array dump() {
    const auto value = json::parse(op<std::string>("dump_engine_timing"));
    EXPECT_TRUE(value);
    return value ? *value->array() : json::Array();
  }
};

TEST_F(DumpEngineTiming, IsEmptyWithoutProfiledEngines) {
  const auto engine = make_engine();
  run(engine);
  EXPECT_TRUE(dump().empty());
}

TEST_F(DumpEngineTiming, HasARowPerEngineProfileAndLayer) {
  for (const char* format : {"perfetto", "trex"}) {
    FakeOptions options;
    options.profiles = {{2, 64}, {1, 1}};
    options.layers = {{"conv \"1\"", 0.5F}};
    options.serialized_metadata =
        metadata_with(R"({"schema":1,"profiles":[{"name":"prefill","inputs":{}},{"name":"","inputs":{}}]})");
    const auto engine = make_engine(options);
    set_format(format);
    set_enabled(true);
    run(engine, 2);
    run(engine, 2);
    engine->set_active_profile(1);
    run(engine, 1);
    set_enabled(false);
    run(engine, 1);
    const auto rows = dump();
    ASSERT_EQ(rows.size(), 2U) << format;
    EXPECT_EQ(*rows[0].find("engine")->string(), "engine");
    EXPECT_EQ(*rows[0].find("profile")->string(), "prefill");
    EXPECT_EQ(*rows[0].find("layer")->string(), "conv \"1\"");
    EXPECT_EQ(std::get<double>(rows[0].find("count")->data), 2);
    EXPECT_DOUBLE_EQ(std::get<double>(rows[0].find("total_ms")->data), 1.0);
    EXPECT_DOUBLE_EQ(std::get<double>(rows[0].find("mean_ms")->data), 0.5);
    EXPECT_EQ(std::get<double>(rows[1].find("profile")->data), 1);
    EXPECT_EQ(std::get<double>(rows[1].find("count")->data), 1);
  }
}

TEST_F(DumpEngineTiming, StartsOverWhenTheSwitchComesOnAgain) {
  const auto engine = make_engine();
  for (int i = 0; i < 2; ++i) {
    set_enabled(true);
    run(engine);
    set_enabled(false);
    run(engine);
  }
  ASSERT_EQ(dump().size(), 2U);
  EXPECT_EQ(std::get<double>(dump()[0].find("count")->data), 1);
}

}  // namespace
}  // namespace torch_tensorrt::profiles::testing
