#include "core/runtime/json.h"

#include <algorithm>
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

  // The length of the string that the text begins with, quotes included.
  std::optional<std::size_t> string() {
    std::string content;
    return read_string(content) && is_utf8(text_.substr(0, at_)) ? std::optional(at_) : std::nullopt;
  }

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

// Goes through text that would be JSON if its strings were escaped, and escapes them.
class Escaper {
 public:
  Escaper(std::string_view text, const std::vector<std::string>& known)
      : text_(text), known_(known), used_(known.size()) {}

  std::string run() {
    for (std::size_t at = 0; at < text_.size();) {
      if (text_[at] == '"') {
        at = escape_string(at);
      } else {
        note(text_[at]);
        out_.push_back(text_[at++]);
      }
    }
    return std::move(out_);
  }

 private:
  // A character outside of strings.
  void note(char c) {
    if (c == '{' || c == '[') {
      open_.push_back(c);
    } else if ((c == '}' || c == ']') && !open_.empty()) {
      open_.pop_back();
    }
    if (kSpace.find(c) == std::string_view::npos) {
      last_ = c;
    }
  }

  [[nodiscard]] bool is_in(char bracket) const { return !open_.empty() && open_.back() == bracket; }
  [[nodiscard]] bool is_key() const { return is_in('{') && (last_ == '{' || last_ == ','); }

  // Whether a string may end at text[at], by what comes next.
  [[nodiscard]] bool can_end(std::size_t at) const {
    if (at >= text_.size() || text_[at] != '"') {
      return false;
    }
    const std::size_t next = text_.find_first_not_of(kSpace, at + 1);
    if (next == std::string_view::npos) {
      return open_.empty();
    }
    if (is_key()) {
      return text_[next] == ':';
    }
    return (text_[next] == ',' && !open_.empty()) || (text_[next] == '}' && is_in('{')) ||
           (text_[next] == ']' && is_in('['));
  }

  // The known string that text[at] begins with.
  std::optional<std::string_view> known_at(std::size_t at) {
    for (const bool used : {false, true}) {
      for (std::size_t i = 0; i < known_.size(); ++i) {
        const std::string& string = known_[i];
        if (used_[i] == used && text_.substr(at, string.size()) == string && can_end(at + string.size())) {
          used_[i] = true;
          return string;
        }
      }
    }
    return std::nullopt;
  }

  // The string whose quote is text[at], escaped; returns where it ends.
  std::size_t escape_string(std::size_t at) {
    const std::size_t start = at + 1;
    std::size_t end = start;
    if (const auto known = is_key() ? std::nullopt : known_at(start)) {
      end = start + known->size();
      out_ += quote(*known);
    } else if (const auto length = Parser(text_.substr(at)).string(); length && can_end(at + *length - 1)) {
      end = at + *length - 1;
      out_ += text_.substr(at, *length);
    } else {
      while (end < text_.size() && !can_end(end)) {
        ++end;
      }
      out_ += quote(text_.substr(start, end - start));
    }
    last_ = '"';
    return end + 1;
  }

  static constexpr std::string_view kSpace = " \t\r\n";

  std::string_view text_;
  const std::vector<std::string>& known_;
  std::vector<bool> used_;
  std::string out_;
  std::string open_;  // brackets
  char last_ = '\0';
};

}  // namespace

Value::Value() = default;

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
  return is_utf8(text) ? Parser(text).document() : std::nullopt;
}

std::string utf8(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text, at);
    out += length > 0 ? text.substr(at, length) : kReplacement;
    at += std::max<std::size_t>(length, 1);
  }
  return out;
}

std::string quote(std::string_view text) {
  static constexpr std::string_view kHex = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : utf8(text)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20) {
      out += "\\u00";
      out.push_back(kHex[byte >> 4U]);
      out.push_back(kHex[byte & 0xFU]);
    } else {
      out.push_back(c);
    }
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

std::string with_strings_escaped(std::string_view text, const std::vector<std::string>& known) {
  return Escaper(text, known).run();
}

}  // namespace torch_tensorrt::profiles::json
