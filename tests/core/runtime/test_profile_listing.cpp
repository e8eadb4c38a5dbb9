// get_optimization_profiles: names and ranges of an engine.
#include <latch>
#include <thread>

#include "core/runtime/c_api.h"
#include "tests/core/runtime/support/harness.h"
#include "tests/core/runtime/support/selection.h"

namespace torch_tensorrt::profiles::testing {
namespace {

using Names = std::vector<std::string>;
using Indices = std::vector<std::int64_t>;
using Shapes = std::vector<std::vector<std::int64_t>>;

class ProfileListing : public CoreTest {
 protected:
  static torch::jit::Stack list(const c10::IValue& engine) {
    torch::jit::Stack stack{engine};
    c10::Dispatcher::singleton().findSchemaOrThrow("tensorrt::get_optimization_profiles", "").callBoxed(stack);
    return stack;
  }
  // Of an engine with that many profiles and this record of them.
  static EnginePtr engine_with(std::size_t count, const std::string& record) {
    return make_engine({.name = "llm",
                        .profiles = std::vector<FakeProfile>(count),
                        .serialized_metadata = record.empty() ? "" : metadata_with(record)});
  }
};

TEST_F(ProfileListing, NamesAndRangesOfAnEngineThatNeverRan) {
  const auto lists = list(recorded({{2, 64}, {1, 1}}));
  ASSERT_EQ(lists.size(), 6U);
  EXPECT_EQ(lists[0].to<Names>(), (Names{"a", "b"}));
  EXPECT_EQ(lists[1].to<Indices>(), (Indices{0, 1}));
  EXPECT_EQ(lists[2].to<Names>(), (Names{"x", "x"}));
  EXPECT_EQ(lists[3].to<Shapes>(), (Shapes{{2, 3}, {1, 3}}));
  EXPECT_EQ(lists[4].to<Shapes>(), (Shapes{{2, 3}, {1, 3}}));
  EXPECT_EQ(lists[5].to<Shapes>(), (Shapes{{64, 3}, {1, 3}}));
}

TEST_F(ProfileListing, InputsByNameScalarsAndProfilesWithoutRanges) {
  const auto lists = list(engine_with(3, R"({"schema":1,"profiles":[
      {"name":"","inputs":{}},
      {"name":"two","inputs":{"y":{"min":[],"opt":[],"max":[]},"a b":{"min":[1,2],"opt":[3,4],"max":[5,6]}}},
      {"name":"three","inputs":{}}]})"));
  EXPECT_EQ(lists[0].to<Names>(), (Names{"", "two", "three"}));
  EXPECT_EQ(lists[1].to<Indices>(), (Indices{1, 1}));
  EXPECT_EQ(lists[2].to<Names>(), (Names{"a b", "y"}));
  EXPECT_EQ(lists[3].to<Shapes>(), (Shapes{{1, 2}, {}}));
  EXPECT_EQ(lists[4].to<Shapes>(), (Shapes{{3, 4}, {}}));
  EXPECT_EQ(lists[5].to<Shapes>(), (Shapes{{5, 6}, {}}));
}

TEST_F(ProfileListing, NamesOfAnyCharacters) {
  const auto lists = list(engine_with(
      2, R"({"schema":1,"profiles":[{"name":"d\u00e9code \"1\"\\ ","inputs":{"\n'":{"min":[1],"opt":[1],"max":[1]}}},)"
         R"({"name":"\ud83d\ude00","inputs":{}}]})"));
  EXPECT_EQ(lists[0].to<Names>(), (Names{"d\xC3\xA9"
                                         "code \"1\"\\ ",
                                         "\xF0\x9F\x98\x80"}));
  EXPECT_EQ(lists[2].to<Names>(), Names{"\n'"});
}

TEST_F(ProfileListing, AnEngineWithoutNamesHasIndicesOnly) {
  for (const std::size_t count : {1U, 3U}) {
    const auto lists = list(engine_with(count, ""));
    EXPECT_EQ(lists[0].to<Names>(), Names(count));
    for (std::size_t i = 1; i < lists.size(); ++i) {
      EXPECT_TRUE(lists[i].toListRef().empty()) << i;
    }
  }
}

TEST_F(ProfileListing, ARecordThatCannotBeReadIsAnErrorHereAndNotInACall) {
  for (const auto& [record, what] :
       {std::pair(R"({"schema":1,"profiles":[{"name":1}]})", "is damaged; compile the program again"),
        std::pair(R"({"schema":2,"profiles":[]})", "has schema 2, this version of torch-tensorrt-profiles reads 1"),
        std::pair(R"({"schema":1,"profiles":[{"name":"a","inputs":{}}]})", "holds 2 optimization profile(s)")}) {
    const auto engine = engine_with(2, record);
    const std::string message = message_of([&] { list(engine); });
    EXPECT_NE(message.find("engine 'llm'"), std::string::npos) << message;
    EXPECT_NE(message.find(what), std::string::npos) << message;
    EXPECT_THROW(list(engine), c10::ValueError);
    EXPECT_NO_THROW(run(engine));
  }
}

TEST_F(ProfileListing, WhatIsNoEngineIsATypeError) {
  for (const c10::IValue& value : {c10::IValue(), c10::IValue(1), c10::IValue(at::ones({1})), c10::IValue("engine")}) {
    EXPECT_THROW(list(value), c10::TypeError);
    EXPECT_NE(message_of([&] { list(value); }).find("expected an engine of Torch-TensorRT"), std::string::npos);
    EXPECT_THROW(call("get_active_profile", {value}), c10::TypeError);
  }
}

TEST_F(ProfileListing, DoesNotWaitForACallOfAKnownEngine) {
  const auto engine = recorded({{2, 64}, {1, 1}});
  list(engine);
  std::latch inside(1);
  std::latch done(1);
  engine->during_execute = [&] {
    inside.count_down();
    done.wait();
  };
  std::thread thread([&] { run(engine); });
  inside.wait();
  EXPECT_EQ(list(engine)[0].to<Names>(), (Names{"a", "b"}));
  done.count_down();
  thread.join();
}

}  // namespace
}  // namespace torch_tensorrt::profiles::testing
