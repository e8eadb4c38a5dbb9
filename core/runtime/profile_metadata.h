#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace torch_tensorrt::profiles {

// What one axis of an input may be.
struct Extents {
  std::int64_t min = 0;
  std::int64_t opt = 0;
  std::int64_t max = 0;
  [[nodiscard]] bool contain(std::int64_t extent) const { return min <= extent && extent <= max; }
};

// One optimization profile, as the compiler recorded it.
struct ProfileRecord {
  std::string name;                                    // "" for an unnamed one
  std::map<std::string, std::vector<Extents>> inputs;  // by binding, one range per axis
};

// The record that the compiler appended to an engine's metadata (dynamo/_metadata.py says how).
struct ProfileMetadata {
  std::vector<ProfileRecord> profiles;  // by index; empty where there is no record, or none that this version reads
  std::string problem;                  // why a record that is there cannot be read, as the end of a sentence; else ""
};
[[nodiscard]] ProfileMetadata profiles_in(std::string_view encoded_metadata);

}  // namespace torch_tensorrt::profiles
