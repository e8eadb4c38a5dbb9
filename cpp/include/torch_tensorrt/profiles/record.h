#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// The record of names and ranges that the compiler leaves in an engine's metadata:
// base64(pickle + mark + JSON), see py/torch_tensorrt_profiles/dynamo/_metadata.py.
namespace torch_tensorrt::profiles {

// The shapes that a profile allows for an input.
struct ShapeRange {
  std::vector<std::int64_t> min;
  std::vector<std::int64_t> opt;
  std::vector<std::int64_t> max;
};

// One optimization profile of an engine; both are empty where the engine was compiled without names.
struct Profile {
  std::string name;
  std::map<std::string, ShapeRange> inputs;  // by input binding
};

namespace detail {

// Skips what is not of the alphabet.
inline std::string base64_decoded(std::string_view text) {
  static constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::array<std::int8_t, 256> digits{};
  digits.fill(-1);
  for (std::size_t i = 0; i < kAlphabet.size(); ++i) {
    digits[static_cast<unsigned char>(kAlphabet[i])] = static_cast<std::int8_t>(i);
  }
  std::string out;
  out.reserve(text.size() / 4 * 3);
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const std::int8_t digit = digits[static_cast<unsigned char>(c)];
    if (digit < 0) {
      continue;
    }
    bits = (bits << 6U) | static_cast<std::uint32_t>(digit);
    count += 6;
    if (count >= 8) {
      count -= 8;
      out += static_cast<char>((bits >> static_cast<unsigned>(count)) & 0xFFU);
    }
  }
  return out;
}

// Reads the record's own JSON: objects, lists, strings and integers.
class RecordReader {
 public:
  explicit RecordReader(std::string_view text) : text_(text) {}

  std::vector<Profile> read() {
    std::int64_t schema = 0;
    std::vector<Profile> profiles;
    object([&](const std::string& key) {
      if (key == "schema") {
        schema = integer();
      } else if (key == "profiles") {
        list([&] { profiles.push_back(profile()); });
      } else {
        damaged();
      }
    });
    if (at_ != text_.size()) {
      damaged();
    }
    if (schema != 1) {
      throw std::runtime_error("an engine's profile record has schema " + std::to_string(schema) +
                               ", this version of torch-tensorrt-profiles reads 1; use the version that wrote it");
    }
    return profiles;
  }

 private:
  [[noreturn]] static void damaged() {
    throw std::runtime_error("an engine's profile record is damaged; compile the program again");
  }

  Profile profile() {
    Profile profile;
    object([&](const std::string& key) {
      if (key == "name") {
        profile.name = string();
      } else if (key == "inputs") {
        object([&](const std::string& input) { profile.inputs[input] = range(); });
      } else {
        damaged();
      }
    });
    return profile;
  }

  ShapeRange range() {
    ShapeRange range;
    object([&](const std::string& key) {
      if (key == "min") {
        list([&] { range.min.push_back(integer()); });
      } else if (key == "opt") {
        list([&] { range.opt.push_back(integer()); });
      } else if (key == "max") {
        list([&] { range.max.push_back(integer()); });
      } else {
        damaged();
      }
    });
    return range;
  }

  template <typename Member>
  void object(const Member& member) {
    enclosed('{', '}', [&] {
      const std::string key = string();
      expect(':');
      member(key);
    });
  }

  template <typename Element>
  void list(const Element& element) {
    enclosed('[', ']', element);
  }

  template <typename Part>
  void enclosed(char open, char close, const Part& part) {
    expect(open);
    if (next(close)) {
      return;
    }
    do {
      part();
    } while (next(','));
    expect(close);
  }

  std::int64_t integer() {
    skip_space();
    const std::size_t start = at_;
    if (at_ < text_.size() && text_[at_] == '-') {
      ++at_;
    }
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
      ++at_;
    }
    try {
      return std::stoll(std::string(text_.substr(start, at_ - start)));
    } catch (const std::logic_error&) {
      damaged();
    }
  }

  std::string string() {
    expect('"');
    std::string out;
    while (at_ < text_.size() && text_[at_] != '"') {
      if (text_[at_] == '\\') {
        escape(out);
      } else {
        out += text_[at_++];
      }
    }
    expect('"');
    return out;
  }

  void escape(std::string& out) {
    static constexpr std::string_view kNames = "\"\\/bfnrt";
    static constexpr std::string_view kCharacters = "\"\\/\b\f\n\r\t";
    const char kind = ++at_ < text_.size() ? text_[at_++] : '\0';
    const std::size_t known = kNames.find(kind);
    if (known != std::string_view::npos && kind != '\0') {
      out += kCharacters[known];
      return;
    }
    if (kind != 'u') {
      damaged();
    }
    std::uint32_t code = hexadecimal();
    if (code >= 0xD800 && code < 0xDC00 && text_.substr(at_, 2) == "\\u") {  // a pair stands for one character
      at_ += 2;
      code = 0x10000 + ((code - 0xD800) << 10U) + (hexadecimal() - 0xDC00);
    }
    append_utf8(out, code);
  }

  std::uint32_t hexadecimal() {
    static constexpr std::string_view kDigits = "0123456789abcdef";
    std::uint32_t code = 0;
    for (int i = 0; i < 4; ++i) {
      const char digit = at_ < text_.size() ? text_[at_++] : '\0';
      const std::size_t value = kDigits.find(digit >= 'A' && digit <= 'F' ? static_cast<char>(digit + 32) : digit);
      if (value == std::string_view::npos) {
        damaged();
      }
      code = (code * 16) + static_cast<std::uint32_t>(value);
    }
    return code;
  }

  static void append_utf8(std::string& out, std::uint32_t code) {
    const auto byte = [&out](std::uint32_t value) { out += static_cast<char>(value); };
    if (code < 0x80) {
      byte(code);
    } else if (code < 0x800) {
      byte(0xC0U | (code >> 6U));
      byte(0x80U | (code & 0x3FU));
    } else if (code < 0x10000) {
      byte(0xE0U | (code >> 12U));
      byte(0x80U | ((code >> 6U) & 0x3FU));
      byte(0x80U | (code & 0x3FU));
    } else {
      byte(0xF0U | (code >> 18U));
      byte(0x80U | ((code >> 12U) & 0x3FU));
      byte(0x80U | ((code >> 6U) & 0x3FU));
      byte(0x80U | (code & 0x3FU));
    }
  }

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) {
      ++at_;
    }
  }

  bool next(char c) {
    skip_space();
    if (at_ < text_.size() && text_[at_] == c) {
      ++at_;
      return true;
    }
    return false;
  }

  void expect(char c) {
    if (!next(c)) {
      damaged();
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

// Empty where there is no record.
inline std::vector<Profile> profiles_in(const std::string& encoded_metadata) {
  static const std::string kMark("\0torch_tensorrt_profiles\0", 25);
  const std::string metadata = base64_decoded(encoded_metadata);
  const std::size_t mark = metadata.rfind(kMark);
  if (mark == std::string::npos) {
    return {};
  }
  return RecordReader(std::string_view(metadata).substr(mark + kMark.size())).read();
}

}  // namespace detail
}  // namespace torch_tensorrt::profiles
