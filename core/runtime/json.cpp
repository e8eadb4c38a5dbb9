#include "core/runtime/json.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <locale>
#include <sstream>

namespace torch_tensorrt::profiles::json {
namespace {

constexpr int kMaxDepth = 200;
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

bool is_continuation(unsigned char byte) {
  return (byte & 0xC0U) == 0x80U;
}

// Length of the UTF-8 sequence that starts at text[at]; 0 where there is none.
std::size_t utf8_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) -> unsigned {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0U;
  };
  const unsigned first = byte(0);
  std::size_t length = 0;
  if (first < 0x80) {
    return 1;
  }
  if (first >= 0xC2 && first <= 0xDF) {
    length = 2;
  } else if (first >= 0xE0 && first <= 0xEF) {
    length = 3;
  } else if (first >= 0xF0 && first <= 0xF4) {
    length = 4;
  } else {
    return 0;
  }
  for (std::size_t i = 1; i < length; ++i) {
    if (!is_continuation(static_cast<unsigned char>(byte(i)))) {
      return 0;
    }
  }
  const bool overlong = (first == 0xE0 && byte(1) < 0xA0) || (first == 0xF0 && byte(1) < 0x90);
  const bool surrogate = first == 0xED && byte(1) >= 0xA0;
  const bool too_large = first == 0xF4 && byte(1) >= 0x90;
  return overlong || surrogate || too_large ? 0 : length;
}

bool is_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text, at);
    if (length == 0) {
      return false;
    }
    at += length;
  }
  return true;
}

void append_utf8(std::string& out, std::uint32_t code) {
  const auto put = [&out](std::uint32_t byte) { out.push_back(static_cast<char>(static_cast<unsigned char>(byte))); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0U | (code >> 6U));
    put(0x80U | (code & 0x3FU));
  } else if (code < 0x10000) {
    put(0xE0U | (code >> 12U));
    put(0x80U | ((code >> 6U) & 0x3FU));
    put(0x80U | (code & 0x3FU));
  } else {
    put(0xF0U | (code >> 18U));
    put(0x80U | ((code >> 12U) & 0x3FU));
    put(0x80U | ((code >> 6U) & 0x3FU));
    put(0x80U | (code & 0x3FU));
  }
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  std::optional<Value> document() {
    Value value;
    if (!read_value(value, 0)) {
      return std::nullopt;
    }
    skip_space();
    return at_ == text_.size() ? std::optional<Value>(std::move(value)) : std::nullopt;
  }

 private:
  [[nodiscard]] char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  bool take(char expected) {
    if (at_ >= text_.size() || text_[at_] != expected) {
      return false;
    }
    ++at_;
    return true;
  }

  bool take(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) {
      return false;
    }
    at_ += word.size();
    return true;
  }

  void skip_space() {
    while (at_ < text_.size() && (peek() == ' ' || peek() == '\t' || peek() == '\n' || peek() == '\r')) {
      ++at_;
    }
  }

  bool read_value(Value& value, int depth) {  // NOLINT(misc-no-recursion): bounded by kMaxDepth
    skip_space();
    if (depth > kMaxDepth) {
      return false;
    }
    switch (peek()) {
      case '{':
        return read_object(value.data.emplace<Object>(), depth);
      case '[':
        return read_array(value.data.emplace<Array>(), depth);
      case '"':
        return read_string(value.data.emplace<std::string>());
      case 't':
        value.data = true;
        return take("true");
      case 'f':
        value.data = false;
        return take("false");
      case 'n':
        return take("null");
      default:
        return read_number(value.data.emplace<double>());
    }
  }

  bool read_array(Array& array, int depth) {  // NOLINT(misc-no-recursion): bounded by kMaxDepth
    take('[');
    skip_space();
    if (take(']')) {
      return true;
    }
    do {
      if (!read_value(array.emplace_back(), depth + 1)) {
        return false;
      }
      skip_space();
    } while (take(','));
    return take(']');
  }

  bool read_object(Object& object, int depth) {  // NOLINT(misc-no-recursion): bounded by kMaxDepth
    take('{');
    skip_space();
    if (take('}')) {
      return true;
    }
    do {
      skip_space();
      Member member;
      if (!read_string(member.key)) {
        return false;
      }
      skip_space();
      if (!take(':') || !read_value(member.value, depth + 1)) {
        return false;
      }
      object.push_back(std::move(member));
      skip_space();
    } while (take(','));
    return take('}');
  }

  bool read_digits() {
    const std::size_t start = at_;
    while (peek() >= '0' && peek() <= '9') {
      ++at_;
    }
    return at_ > start;
  }

  bool read_number(double& number) {
    const std::size_t start = at_;
    take('-');
    if (!take('0') && !read_digits()) {
      return false;
    }
    if (take('.') && !read_digits()) {
      return false;
    }
    if (take('e') || take('E')) {
      if (!take('+')) {
        take('-');
      }
      if (!read_digits()) {
        return false;
      }
    }
    std::istringstream stream{std::string(text_.substr(start, at_ - start))};
    stream.imbue(std::locale::classic());
    stream >> number;
    return true;
  }

  bool read_hex(std::uint32_t& code) {
    code = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
      const char c = peek();
      code <<= 4U;
      if (c >= '0' && c <= '9') {
        code |= static_cast<std::uint32_t>(c - '0');
      } else if (c >= 'a' && c <= 'f') {
        code |= static_cast<std::uint32_t>(c - 'a' + 10);
      } else if (c >= 'A' && c <= 'F') {
        code |= static_cast<std::uint32_t>(c - 'A' + 10);
      } else {
        return false;
      }
    }
    return true;
  }

  bool read_unicode_escape(std::string& out) {
    std::uint32_t code = 0;
    if (!read_hex(code)) {
      return false;
    }
    if (code >= 0xD800 && code < 0xDC00) {
      const std::size_t before = at_;
      std::uint32_t low = 0;
      if (take("\\u") && read_hex(low) && low >= 0xDC00 && low < 0xE000) {
        append_utf8(out, 0x10000 + ((code - 0xD800U) << 10U) + (low - 0xDC00));
        return true;
      }
      at_ = before;
    }
    if (code >= 0xD800 && code < 0xE000) {
      out += kReplacement;  // half a surrogate pair
    } else {
      append_utf8(out, code);
    }
    return true;
  }

  bool read_string(std::string& out) {
    if (!take('"')) {
      return false;
    }
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == '"') {
        return true;
      }
      if (static_cast<unsigned char>(c) < 0x20) {
        return false;
      }
      if (c != '\\') {
        out.push_back(c);
        continue;
      }
      static constexpr std::string_view kEscapes = "\"\\/bfnrt";
      static constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
      const char escape = peek();
      ++at_;
      if (escape == 'u') {
        if (!read_unicode_escape(out)) {
          return false;
        }
      } else if (const std::size_t which = kEscapes.find(escape); which != std::string_view::npos) {
        out.push_back(kMeanings[which]);
      } else {
        return false;
      }
    }
    return false;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

// Whether the quote at text[at] can end a string: what follows must be what JSON allows there.
bool ends_string(std::string_view text, std::size_t at) {
  const std::size_t next = text.find_first_not_of(" \t\r\n", at + 1);
  return next == std::string_view::npos || std::string_view(",:]}").find(text[next]) != std::string_view::npos;
}

}  // namespace

const Value* Value::find(std::string_view key) const {
  if (const auto* object = std::get_if<Object>(&data)) {
    for (const auto& [name, value] : *object) {
      if (name == key) {
        return &value;
      }
    }
  }
  return nullptr;
}

std::optional<Value> parse(std::string_view text) {
  return Parser(text).document();
}

std::string quote(std::string_view text) {
  static constexpr std::string_view kHex = "0123456789abcdef";
  std::string out = "\"";
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text, at);
    const auto byte = static_cast<unsigned char>(text[at]);
    if (length == 0) {
      out += kReplacement;
      ++at;
      continue;
    }
    if (byte == '"' || byte == '\\') {
      out.push_back('\\');
      out.push_back(static_cast<char>(byte));
    } else if (byte == '\n') {
      out += "\\n";
    } else if (byte == '\t') {
      out += "\\t";
    } else if (byte < 0x20) {
      out += "\\u00";
      out.push_back(kHex[byte >> 4U]);
      out.push_back(kHex[byte & 0xFU]);
    } else {
      out += text.substr(at, length);
    }
    at += length;
  }
  out.push_back('"');
  return out;
}

std::string number(double value) {
  if (!std::isfinite(value)) {
    return "0";
  }
  std::ostringstream out;
  out.imbue(std::locale::classic());
  out.precision(std::numeric_limits<double>::digits10);
  out << value;
  return out.str();
}

std::string repaired(std::string_view text) {
  if (is_utf8(text) && parse(text).has_value()) {
    return std::string(text);
  }
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] != '"') {
      out.push_back(text[at++]);
      continue;
    }
    std::size_t end = at + 1;
    while (end < text.size() && (text[end] != '"' || !ends_string(text, end))) {
      ++end;
    }
    out += quote(text.substr(at + 1, end - at - 1));
    at = end + 1;
  }
  if (is_utf8(out) && parse(out).has_value()) {
    return out;
  }
  return "{\"unreadable\": " + quote(text) + "}\n";
}

}  // namespace torch_tensorrt::profiles::json
