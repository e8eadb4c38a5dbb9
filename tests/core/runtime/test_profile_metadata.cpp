#include <gtest/gtest.h>

#include "core/runtime/profile_metadata.h"

namespace torch_tensorrt::profiles {
namespace {

// base64(pickle.dumps({}) + MARK + JSON), made by dynamo/_metadata.py's append().
constexpr const char* kTwoProfiles =
    "gAR9lC4AdG9yY2hfdGVuc29ycnRfcHJvZmlsZXMAeyJwcm9maWxlcyI6W3siaW5wdXRzIjp7IngiOnsibWF4IjpbNF0sIm1pbiI6"
    "WzFdLCJvcHQiOlsyXX19LCJuYW1lIjoicHJlZmlsbCJ9LHsiaW5wdXRzIjp7fSwibmFtZSI6IiJ9XSwic2NoZW1hIjoxfQ==";

constexpr const char* kUnevenShapes =
    "AHRvcmNoX3RlbnNvcnJ0X3Byb2ZpbGVzAHsic2NoZW1hIjoxLCJwcm9maWxlcyI6W3sibmFtZSI6ImEiLCJpbnB1dHMiOnsieCI6"
    "eyJtaW4iOlsxLDJdLCJvcHQiOlsxLDJdLCJtYXgiOls0XX19fV19";
constexpr const char* kShapeOfStrings =
    "AHRvcmNoX3RlbnNvcnJ0X3Byb2ZpbGVzAHsic2NoZW1hIjoxLCJwcm9maWxlcyI6W3sibmFtZSI6ImEiLCJpbnB1dHMiOnsieCI6"
    "eyJtaW4iOlsiMSJdLCJtYXgiOls0XX19fV19";

TEST(ProfileMetadata, NamesAndRangesAreReadWithoutUnpickling) {
  const auto profiles = profiles_in(kTwoProfiles);
  ASSERT_EQ(profiles.size(), 2);
  EXPECT_EQ(profiles[0].name, "prefill");
  ASSERT_EQ(profiles[0].inputs.size(), 1);
  const auto& range = profiles[0].inputs.at("x");
  ASSERT_EQ(range.size(), 1);
  EXPECT_EQ(range[0].min, 1);
  EXPECT_EQ(range[0].max, 4);
  EXPECT_EQ(profiles[1].name, "");
  EXPECT_TRUE(profiles[1].inputs.empty());
}

TEST(ProfileMetadata, WhatHasNoRecordHasNoProfiles) {
  for (const char* text :
       {"", "gAR9lC4=", "!!!!", "AHRvcmNoX3RlbnNvcnJ0X3Byb2ZpbGVzAHt9",
        "AHRvcmNoX3RlbnNvcnJ0X3Byb2ZpbGVzAHsic2NoZW1hIjoyLCJwcm9maWxlcyI6W119", kUnevenShapes, kShapeOfStrings}) {
    EXPECT_TRUE(profiles_in(text).empty()) << text;
  }
}

}  // namespace
}  // namespace torch_tensorrt::profiles
