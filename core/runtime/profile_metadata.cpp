#include "core/runtime/profile_metadata.h"

#include <array>
#include <cstdint>
#include <variant>

#include "core/runtime/json.h"

namespace torch_tensorrt::profiles {
namespace {

using std::string_view_literals::operator""sv;

constexpr std::string_view kMark = "\0torch_tensorrt_profiles\0"sv;
constexpr double kSchema = 1;

std::string base64_decoded(std::string_view text) {
  static constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::array<int, 256> values{};
  values.fill(-1);
  for (std::size_t i = 0; i < kAlphabet.size(); ++i) {
    values.at(static_cast<unsigned char>(kAlphabet[i])) = static_cast<int>(i);
  }
  std::string out;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const int value = values.at(static_cast<unsigned char>(c));
    if (value < 0) {  // padding, line ends
      continue;
    }
    bits = (bits << 6U) | static_cast<std::uint32_t>(value);
    count += 6;
    if (count >= 8) {
      count -= 8;
      out.push_back(static_cast<char>((bits >> static_cast<unsigned>(count)) & 0xFFU));
    }
  }
  return out;
}

}  // namespace

std::vector<std::string> profile_names_in(std::string_view encoded_metadata) {
  const std::string plain = base64_decoded(encoded_metadata);
  const std::size_t mark = plain.rfind(kMark);
  if (mark == std::string::npos) {
    return {};
  }
  const auto record = json::parse(std::string_view(plain).substr(mark + kMark.size()));
  const json::Value* schema = record ? record->find("schema") : nullptr;
  const json::Value* profiles = record ? record->find("profiles") : nullptr;
  if (schema == nullptr || profiles == nullptr || profiles->array() == nullptr ||
      !std::holds_alternative<double>(schema->data) || std::get<double>(schema->data) != kSchema) {
    return {};
  }
  std::vector<std::string> names;
  for (const json::Value& profile : *profiles->array()) {
    const json::Value* name = profile.find("name");
    names.push_back(name != nullptr && name->string() != nullptr ? *name->string() : std::string());
  }
  return names;
}

}  // namespace torch_tensorrt::profiles
