#include <gtest/gtest.h>

#include "core/runtime/json.h"

namespace torch_tensorrt::profiles::json {
namespace {

TEST(Json, ParsesWhatIsJsonAndNothingElse) {
  for (const char* good :
       {"null", " [1, -2.5e+3, 0] ", R"({"a": {"b": [true, false, null]}})", R"("\u00e9\n")", "[]", "{}"}) {
    EXPECT_TRUE(parse(good)) << good;
  }
  for (const char* bad :
       {"", "[", "[1,]", "{\"a\"}", "{'a': 1}", "nan", "01", "1.", "\"\n\"", "\"\\x\"", "[1] 2", "]"}) {
    EXPECT_FALSE(parse(bad)) << bad;
  }
  EXPECT_FALSE(parse(std::string(100000, '[')));
}

TEST(Json, QuoteAndParseAreInverse) {
  for (const std::string text :
       {"plain", "quote \" backslash \\ slash /", "new\nline\ttab\x01", "h\xC3\xA9llo \xE2\x82\xAC \xF0\x9F\x98\x80"}) {
    const auto value = parse(quote(text));
    ASSERT_TRUE(value) << text;
    EXPECT_EQ(*value->string(), text);
  }
}

TEST(Json, BytesThatAreNotUtf8AreReplaced) {
  EXPECT_EQ(quote("a\xFF\xC3z"), "\"a\xEF\xBF\xBD\xEF\xBF\xBDz\"");
  EXPECT_EQ(quote("\xED\xA0\x80"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");  // half a surrogate pair
  EXPECT_EQ(quote("\xC0\xAF"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\"");                  // overlong
}

TEST(Json, NumbersAreNumbers) {
  EXPECT_EQ(number(0.5), "0.5");
  EXPECT_EQ(number(1.0 / 0.0), "0");
  EXPECT_EQ(number(0.0 / 0.0), "0");
}

TEST(Json, RepairLeavesGoodTextAlone) {
  const std::string good = "{\"Layers\": [\"a \\\" b\"]}\n";
  EXPECT_EQ(repaired(good), good);
}

TEST(Json, RepairEscapesNames) {
  const auto value = parse(repaired("{\"Layers\": [\"a \"b\" \\ c\n\xFF\", \"d\"]}"));
  ASSERT_TRUE(value);
  const auto& layers = *value->find("Layers")->array();
  ASSERT_EQ(layers.size(), 2U);
  EXPECT_EQ(*layers[0].string(), "a \"b\" \\ c\n\xEF\xBF\xBD");
  EXPECT_EQ(*layers[1].string(), "d");
}

TEST(Json, WhatCannotBeRepairedIsWrapped) {
  const auto value = parse(repaired("half a {"));
  ASSERT_TRUE(value);
  EXPECT_EQ(*value->find("unreadable")->string(), "half a {");
}

}  // namespace
}  // namespace torch_tensorrt::profiles::json
