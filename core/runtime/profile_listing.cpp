#include "core/runtime/profile_listing.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

#include "core/runtime/profile_selection.h"

namespace torch_tensorrt::profiles {
namespace {

std::vector<std::int64_t> shape_of(const std::vector<Extents>& range, std::int64_t Extents::*end) {
  std::vector<std::int64_t> shape(range.size());
  std::ranges::transform(range, shape.begin(), end);
  return shape;
}

}  // namespace

ProfileListing list_profiles(const Engine& engine) {
  const EngineState& state = learned_engine(engine);
  const EngineIdentity& identity = state.identity;
  TORCH_CHECK_VALUE(identity.profiles_problem.empty(), "engine '", identity.name,
                    "': the record of its optimization profiles ", identity.profiles_problem, ".");
  ProfileListing listing;
  if (identity.profiles.empty()) {
    listing.names.resize(static_cast<std::size_t>(state.profile_count));
    return listing;
  }
  TORCH_CHECK_VALUE(std::cmp_equal(identity.profiles.size(), state.profile_count), "engine '", identity.name,
                    "' holds ", state.profile_count, " optimization profile(s), but its record names ",
                    identity.profiles.size(), ". The two do not belong together; compile the program again.");
  listing.names = identity.profile_names();
  for (std::size_t index = 0; index < identity.profiles.size(); ++index) {
    for (const auto& [input, range] : identity.profiles[index].inputs) {
      listing.indices.push_back(static_cast<std::int64_t>(index));
      listing.inputs.push_back(input);
      listing.min.push_back(shape_of(range, &Extents::min));
      listing.opt.push_back(shape_of(range, &Extents::opt));
      listing.max.push_back(shape_of(range, &Extents::max));
    }
  }
  return listing;
}

}  // namespace torch_tensorrt::profiles
