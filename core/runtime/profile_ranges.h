#pragma once

#include <c10/util/ArrayRef.h>
#include <c10/util/SmallVector.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/runtime/profile_metadata.h"

namespace torch_tensorrt::profiles {

// The shapes of a call, one per input of the engine, in the order of its input bindings.
using Shapes = c10::SmallVector<c10::IntArrayRef, 8>;

// Which shapes each optimization profile of an engine takes, and in words why one does not fit.
class ProfileRanges {
 public:
  ProfileRanges() = default;  // of an engine whose ranges are not known
  ProfileRanges(const std::vector<ProfileRecord>& profiles, const std::vector<std::string>& inputs);

  [[nodiscard]] bool are_known() const { return !profiles_.empty(); }
  // Both for an engine whose ranges are known.
  [[nodiscard]] bool fit(std::int64_t index, const Shapes& shapes) const;
  // The first declared profile that takes the shapes.
  [[nodiscard]] std::optional<std::int64_t> first_that_fits(const Shapes& shapes) const;

  // "1 'decode'"; "1" for a profile without a name.
  [[nodiscard]] std::string title(std::int64_t index) const;
  // For shapes that `index` does not take: input, shape, axis, range, and what would fit.
  [[nodiscard]] std::string misfit(std::int64_t index, const Shapes& shapes) const;
  // For shapes that no profile takes: each profile with the first input that it refuses.
  [[nodiscard]] std::string gap(const Shapes& shapes) const;

 private:
  using ShapeRange = std::vector<Extents>;
  struct Profile {
    std::string name;
    std::vector<std::optional<ShapeRange>> inputs;  // nothing where the record does not say
  };

  [[nodiscard]] const Profile& at(std::int64_t index) const { return profiles_.at(static_cast<std::size_t>(index)); }
  [[nodiscard]] static std::optional<std::size_t> first_misfit(const Profile& profile, const Shapes& shapes);
  [[nodiscard]] std::string refusal(std::int64_t index, const Shapes& shapes) const;

  std::vector<std::string> inputs_;
  std::vector<Profile> profiles_;
};

}  // namespace torch_tensorrt::profiles
