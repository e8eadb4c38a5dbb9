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

TEST(Json, TextThatIsNotUtf8IsNoJson) {
  EXPECT_FALSE(parse("\"\xFF\""));
  EXPECT_EQ(utf8("a\xFFz"), "a\xEF\xBF\xBDz");
}

TEST(Json, EscapingLeavesGoodTextAlone) {
  const std::string good = R"({"Layers": ["a \" b", "\n", [], {"k": "}\\"}], "x": 1}
)";
  EXPECT_EQ(with_strings_escaped(good), good);
}

TEST(Json, EscapingFindsWhereStringsEnd) {
  const auto value = parse(with_strings_escaped("{\"Layers\": [\"a \"b\" \\ c\n\xFF\", \"d\"]}"));
  ASSERT_TRUE(value);
  const auto& layers = *value->find("Layers")->array();
  ASSERT_EQ(layers.size(), 2U);
  EXPECT_EQ(*layers[0].string(), "a \"b\" \\ c\n\xEF\xBF\xBD");
  EXPECT_EQ(*layers[1].string(), "d");
}

TEST(Json, EscapingKnowsWhatACommaInAKeyAndABraceInAListMean) {
  const auto value = parse(with_strings_escaped(R"({"a", "b": ["c"} d", "e"]})"));
  ASSERT_TRUE(value);
  ASSERT_NE(value->find("a\", \"b"), nullptr);
  EXPECT_EQ(*value->find("a\", \"b")->array()->at(0).string(), "c\"} d");
}

TEST(Json, EscapingTakesKnownStringsForWhatTheyAre) {
  const std::string text = R"(["a", "b", "a", "b", "c\n"])";
  const auto strings = [&text](const std::vector<std::string>& known) {
    std::vector<std::string> found;
    const auto value = parse(with_strings_escaped(text, known));
    for (const Value& string : *value->array()) {
      found.push_back(*string.string());
    }
    return found;
  };
  const std::string both = "a\", \"b";
  const std::string backslash = "c\\n";
  EXPECT_EQ(strings({}), (std::vector<std::string>{"a", "b", "a", "b", "c\n"}));
  EXPECT_EQ(strings({"a", "b", both, backslash}), (std::vector<std::string>{"a", "b", both, backslash}));
  EXPECT_EQ(strings({both, backslash, "a", "b"}), (std::vector<std::string>{both, "a", "b", backslash}));
  EXPECT_EQ(strings({both}), (std::vector<std::string>{both, both, "c\n"}));
}

}  // namespace
}  // namespace torch_tensorrt::profiles::json
