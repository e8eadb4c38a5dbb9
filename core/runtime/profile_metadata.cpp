#include "core/runtime/profile_metadata.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>
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
std::optional<std::vector<std::int64_t>> shape_of(const json::Value* value) {
  constexpr double kLargest = 9007199254740992;  // of the integers that a double holds
  const json::Array* const extents = value != nullptr ? value->array() : nullptr;
  if (extents == nullptr) {
    return std::nullopt;
  }
  std::vector<std::int64_t> shape;
  for (const json::Value& extent : *extents) {
    const auto* const number = std::get_if<double>(&extent.data);
    if (number == nullptr || *number != std::trunc(*number) || std::abs(*number) > kLargest) {
      return std::nullopt;
    }
    shape.push_back(static_cast<std::int64_t>(*number));
  }
  return shape;
}

// Nothing where the value is no range.
std::optional<std::vector<Extents>> range_of(const json::Value& value) {
  const auto min = shape_of(value.find("min"));
  const auto opt = shape_of(value.find("opt"));
  const auto max = shape_of(value.find("max"));
  if (!min || !opt || !max || min->size() != opt->size() || min->size() != max->size()) {
    return std::nullopt;
  }
  std::vector<Extents> range;
  range.reserve(min->size());
  for (std::size_t axis = 0; axis < min->size(); ++axis) {
    range.push_back({(*min)[axis], (*opt)[axis], (*max)[axis]});
  }
  return range;
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
    auto range = range_of(input.value);
    if (!range) {
      return std::nullopt;
    }
    profile.inputs.insert_or_assign(input.key, std::move(*range));
  }
  return profile;
}

ProfileMetadata damaged() {
  return {{}, "is damaged; compile the program again"};
}

}  // namespace

ProfileMetadata profiles_in(std::string_view encoded_metadata) {
  const std::string plain = base64_decoded(encoded_metadata);
  const std::size_t mark = plain.rfind(kMark);
  if (mark == std::string::npos) {
    return {};
  }
  const auto record = json::parse(std::string_view(plain).substr(mark + kMark.size()));
  const json::Value* const schema = record ? record->find("schema") : nullptr;
  const json::Value* const profiles = record ? record->find("profiles") : nullptr;
  if (schema == nullptr || !std::holds_alternative<double>(schema->data)) {
    return damaged();
  }
  if (const double number = std::get<double>(schema->data); number != kSchema) {
    return {{},
            "has schema " + json::number(number) + ", this version of torch-tensorrt-profiles reads " +
                json::number(kSchema) + "; use the version that wrote it, or compile the program again"};
  }
  if (profiles == nullptr || profiles->array() == nullptr) {
    return damaged();
  }
  ProfileMetadata metadata;
  for (const json::Value& value : *profiles->array()) {
    auto profile = profile_of(value);
    if (!profile) {
      return damaged();
    }
    metadata.profiles.push_back(std::move(*profile));
  }
  return metadata;
}

}  // namespace torch_tensorrt::profiles
