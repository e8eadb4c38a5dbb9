#pragma once

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
  std::variant<std::nullptr_t, bool, double, std::string, Array, Object> data = nullptr;

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

// Nothing where the text is not one JSON value.
[[nodiscard]] std::optional<Value> parse(std::string_view text);

// A JSON string with its quotes. Bytes that are not UTF-8 become U+FFFD.
[[nodiscard]] std::string quote(std::string_view text);

// A JSON number, whatever the locale; 0 for what JSON cannot say (infinities, NaN).
[[nodiscard]] std::string number(double value);

// The text itself where it is valid JSON in UTF-8. Otherwise its strings are escaped: a quote ends a string only where
// JSON's grammar goes on after it. What still is no JSON comes back as {"unreadable": "<the text>"}.
[[nodiscard]] std::string repaired(std::string_view text);

}  // namespace torch_tensorrt::profiles::json
