#include <gtest/gtest.h>

#include "core/runtime/profile_metadata.h"

namespace torch_tensorrt::profiles {
namespace {

// base64(pickle.dumps({}) + MARK + JSON), made by dynamo/_metadata.py's append().
constexpr const char* kTwoProfiles =
    "gAR9lC4AdG9yY2hfdGVuc29ycnRfcHJvZmlsZXMAeyJwcm9maWxlcyI6W3siaW5wdXRzIjp7IngiOnsibWF4IjpbNF0sIm1pbiI6"
    "WzFdLCJvcHQiOlsyXX19LCJuYW1lIjoicHJlZmlsbCJ9LHsiaW5wdXRzIjp7fSwibmFtZSI6IiJ9XSwic2NoZW1hIjoxfQ==";

TEST(ProfileMetadata, NamesAreReadWithoutUnpickling) {
  EXPECT_EQ(profile_names_in(kTwoProfiles), (std::vector<std::string>{"prefill", ""}));
}

TEST(ProfileMetadata, WhatHasNoRecordHasNoNames) {
  for (const char* text : {"", "gAR9lC4=", "!!!!", "AHRvcmNoX3RlbnNvcnJ0X3Byb2ZpbGVzAHt9",
                           "AHRvcmNoX3RlbnNvcnJ0X3Byb2ZpbGVzAHsic2NoZW1hIjoyLCJwcm9maWxlcyI6W119"}) {
    EXPECT_TRUE(profile_names_in(text).empty()) << text;
  }
}

}  // namespace
}  // namespace torch_tensorrt::profiles
