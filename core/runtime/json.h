#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

// The little JSON that traces and metadata need: a strict reader, quoting, and a repair of text whose strings were
// written without escaping.
namespace torch_tensorrt::profiles::json {

struct Value;
struct Member;
using Array = std::vector<Value>;
using Object = std::vector<Member>;

struct Value {
  Value();  // null

  std::variant<std::nullptr_t, bool, double, std::string, Array, Object> data;

  // Nullptr where this is no object or has no such member.
  [[nodiscard]] const Value* find(std::string_view key) const;
  // Nullptr where this is of another type.
  [[nodiscard]] const Array* array() const { return std::get_if<Array>(&data); }
  [[nodiscard]] const std::string* string() const { return std::get_if<std::string>(&data); }
};

struct Member {
  std::string key;
  Value value;
};

// Nothing where the text is not one JSON value in UTF-8.
[[nodiscard]] std::optional<Value> parse(std::string_view text);

// Bytes that are not UTF-8 become U+FFFD.
[[nodiscard]] std::string utf8(std::string_view text);

// A JSON string with its quotes, of utf8(text).
[[nodiscard]] std::string quote(std::string_view text);

// A JSON number, whatever the locale; 0 for what JSON cannot say (infinities, NaN).
[[nodiscard]] std::string number(double value);

// `text`, whose strings were written without escaping, with them escaped. A value that is one of `known` is taken as
// that: the first in this order that is not in the text so far, else the first that is. Any other string that JSON
// would end where it may end stays as it is, and what is left ends at a quote after which JSON's grammar goes on.
[[nodiscard]] std::string with_strings_escaped(std::string_view text, const std::vector<std::string>& known = {});

}  // namespace torch_tensorrt::profiles::json
