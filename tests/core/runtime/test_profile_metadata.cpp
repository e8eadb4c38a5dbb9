#include "core/runtime/profile_metadata.h"

#include <gtest/gtest.h>

#include "tests/core/runtime/support/selection.h"

namespace torch_tensorrt::profiles::testing {
namespace {

// base64(pickle.dumps({}) + MARK + JSON), made by dynamo/_metadata.py's append().
constexpr const char* kTwoProfiles =
    "gAR9lC4AdG9yY2hfdGVuc29ycnRfcHJvZmlsZXMAeyJwcm9maWxlcyI6W3siaW5wdXRzIjp7IngiOnsibWF4IjpbNF0sIm1pbiI6"
    "WzFdLCJvcHQiOlsyXX19LCJuYW1lIjoicHJlZmlsbCJ9LHsiaW5wdXRzIjp7fSwibmFtZSI6IiJ9XSwic2NoZW1hIjoxfQ==";

// The record of one profile "a" with this range of an input x.
std::string with_range(const std::string& range) {
  return metadata_with(R"({"schema":1,"profiles":[{"name":"a","inputs":{"x":)" + range + "}}]}");
}

TEST(ProfileMetadata, NamesAndRangesAreReadWithoutUnpickling) {
  const auto [profiles, problem] = profiles_in(kTwoProfiles);
  EXPECT_EQ(problem, "");
  ASSERT_EQ(profiles.size(), 2);
  EXPECT_EQ(profiles[0].name, "prefill");
  ASSERT_EQ(profiles[0].inputs.size(), 1);
  const auto& range = profiles[0].inputs.at("x");
  ASSERT_EQ(range.size(), 1);
  EXPECT_EQ(range[0].min, 1);
  EXPECT_EQ(range[0].opt, 2);
  EXPECT_EQ(range[0].max, 4);
  EXPECT_EQ(profiles[1].name, "");
  EXPECT_TRUE(profiles[1].inputs.empty());
}

TEST(ProfileMetadata, WhatHasNoRecordHasNoProfiles) {
  for (const char* text : {"", "gAR9lC4=", "!!!!"}) {
    const auto [profiles, problem] = profiles_in(text);
    EXPECT_TRUE(profiles.empty()) << text;
    EXPECT_EQ(problem, "") << text;
  }
}

TEST(ProfileMetadata, ADamagedRecordIsAProblem) {
  ASSERT_EQ(profiles_in(with_range(R"({"min":[1],"opt":[2],"max":[3]})")).profiles.size(), 1U);
  for (const std::string& text : {
           metadata_with(""),
           metadata_with("{}"),
           metadata_with("[1]"),
           metadata_with(R"({"schema":"1","profiles":[]})"),
           metadata_with(R"({"schema":1})"),
           metadata_with(R"({"schema":1,"profiles":{}})"),
           metadata_with(R"({"schema":1,"profiles":[{"name":1,"inputs":{}}]})"),
           metadata_with(R"({"schema":1,"profiles":[{"name":"a"}]})"),
           metadata_with(R"({"schema":1,"profiles":[{"name":"a","inputs":{)"),
           with_range("[]"),
           with_range(R"({"min":[1],"max":[3]})"),
           with_range(R"({"min":[1,2],"opt":[1,2],"max":[4]})"),
           with_range(R"({"min":["1"],"opt":[1],"max":[4]})"),
           with_range(R"({"min":[1.5],"opt":[2],"max":[4]})"),
           with_range(R"({"min":[1],"opt":[2],"max":[1e300]})"),
       }) {
    const auto [profiles, problem] = profiles_in(text);
    EXPECT_TRUE(profiles.empty()) << text;
    EXPECT_EQ(problem, "is damaged; compile the program again") << text;
  }
}

TEST(ProfileMetadata, ANewerRecordIsAProblemThatSaysSo) {
  const auto [profiles, problem] = profiles_in(metadata_with(R"({"schema":2,"profiles":[],"more":true})"));
  EXPECT_TRUE(profiles.empty());
  EXPECT_NE(problem.find("has schema 2, this version of torch-tensorrt-profiles reads 1"), std::string::npos)
      << problem;
}

}  // namespace
}  // namespace torch_tensorrt::profiles::testing
