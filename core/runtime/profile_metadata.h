#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace torch_tensorrt::profiles {

// The profile names that the compiler appended to an engine's metadata (dynamo/_metadata.py says how): one per profile,
// "" for an unnamed one. Empty where there is no record, or none that this version reads.
[[nodiscard]] std::vector<std::string> profile_names_in(std::string_view encoded_metadata);

}  // namespace torch_tensorrt::profiles
