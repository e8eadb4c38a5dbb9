#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/runtime/torchtrt_engine.h"

namespace torch_tensorrt::profiles {

// Names and ranges of an engine's optimization profiles, in lists that an operator can return.
struct ProfileListing {
  std::vector<std::string> names;  // by index; "" for a profile without a name
  // A row for each input of each profile, by index and name; none where the engine was compiled without names.
  std::vector<std::int64_t> indices;
  std::vector<std::string> inputs;
  std::vector<std::vector<std::int64_t>> min;
  std::vector<std::vector<std::int64_t>> opt;
  std::vector<std::vector<std::int64_t>> max;
};

// Throws for an object that is no engine of the class we know, and for an engine whose record of its profiles cannot be
// read or is of another number of them.
[[nodiscard]] ProfileListing list_profiles(const Engine& engine);

}  // namespace torch_tensorrt::profiles
