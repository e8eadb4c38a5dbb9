#include "core/runtime/profile_metadata.h"

#include <array>
#include <optional>
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

// Nothing where the value is no shape.
std::optional<std::vector<double>> shape_of(const json::Value* value) {
  const json::Array* const extents = value != nullptr ? value->array() : nullptr;
  if (extents == nullptr) {
    return std::nullopt;
  }
  std::vector<double> shape;
  for (const json::Value& extent : *extents) {
    const auto* const number = std::get_if<double>(&extent.data);
    if (number == nullptr) {
      return std::nullopt;
    }
    shape.push_back(*number);
  }
  return shape;
}

std::optional<ProfileRecord> profile_of(const json::Value& value) {
  const json::Value* const name = value.find("name");
  const json::Value* const inputs = value.find("inputs");
  const auto* const members = inputs != nullptr ? std::get_if<json::Object>(&inputs->data) : nullptr;
  if (name == nullptr || name->string() == nullptr || members == nullptr) {
    return std::nullopt;
  }
  ProfileRecord profile{*name->string(), {}};
  for (const json::Member& input : *members) {
    const auto min = shape_of(input.value.find("min"));
    const auto max = shape_of(input.value.find("max"));
    if (!min || !max || min->size() != max->size()) {
      return std::nullopt;
    }
    auto& axes = profile.inputs[input.key];
    for (std::size_t axis = 0; axis < min->size(); ++axis) {
      axes.push_back({static_cast<std::int64_t>((*min)[axis]), static_cast<std::int64_t>((*max)[axis])});
    }
  }
  return profile;
}

}  // namespace

std::vector<ProfileRecord> profiles_in(std::string_view encoded_metadata) {
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
  std::vector<ProfileRecord> found;
  for (const json::Value& value : *profiles->array()) {
    auto profile = profile_of(value);
    if (!profile) {
      return {};
    }
    found.push_back(std::move(*profile));
  }
  return found;
}

}  // namespace torch_tensorrt::profiles
