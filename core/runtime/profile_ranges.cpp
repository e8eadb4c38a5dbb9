#include "core/runtime/profile_ranges.h"

#include <algorithm>
#include <sstream>

namespace torch_tensorrt::profiles {
namespace {

bool takes(const std::vector<Extents>& range, c10::IntArrayRef shape) {
  return std::ranges::equal(range, shape,
                            [](const Extents& extents, std::int64_t extent) { return extents.contain(extent); });
}

std::string text_of(const Extents& extents) {
  return extents.min == extents.max ? std::to_string(extents.min)
                                    : std::to_string(extents.min) + ".." + std::to_string(extents.max);
}

std::string text_of(const std::vector<Extents>& range) {
  std::string text;
  for (const Extents& extents : range) {
    text += (text.empty() ? "" : ", ") + text_of(extents);
  }
  return "[" + text + "]";
}

std::string text_of(c10::IntArrayRef shape) {
  std::ostringstream out;
  out << shape;
  return out.str();
}

}  // namespace

ProfileRanges::ProfileRanges(const std::vector<ProfileRecord>& profiles, const std::vector<std::string>& inputs)
    : inputs_(inputs) {
  for (const ProfileRecord& record : profiles) {
    Profile profile{record.name, {}};
    for (const std::string& input : inputs) {
      const auto found = record.inputs.find(input);
      profile.inputs.push_back(found == record.inputs.end() ? std::nullopt : std::optional(found->second));
    }
    profiles_.push_back(std::move(profile));
  }
}

std::optional<std::size_t> ProfileRanges::first_misfit(const Profile& profile, const Shapes& shapes) {
  const std::size_t count = std::min(profile.inputs.size(), shapes.size());
  for (std::size_t input = 0; input < count; ++input) {
    const auto& range = profile.inputs[input];
    if (range && !takes(*range, shapes[input])) {
      return input;
    }
  }
  return std::nullopt;
}

bool ProfileRanges::fit(std::int64_t index, const Shapes& shapes) const {
  return !first_misfit(at(index), shapes);
}

std::optional<std::int64_t> ProfileRanges::first_that_fits(const Shapes& shapes) const {
  const auto found = std::ranges::find_if(
      profiles_, [&shapes](const Profile& profile) { return !first_misfit(profile, shapes).has_value(); });
  return found == profiles_.end() ? std::nullopt : std::optional<std::int64_t>(found - profiles_.begin());
}

std::string ProfileRanges::title(std::int64_t index) const {
  const std::string name = are_known() ? at(index).name : std::string();
  return std::to_string(index) + (name.empty() ? "" : " '" + name + "'");
}

std::string ProfileRanges::refusal(std::int64_t index, const Shapes& shapes) const {
  const auto input = first_misfit(at(index), shapes);
  if (!input) {
    return {};
  }
  const auto& range = *at(index).inputs[*input];  // NOLINT(bugprone-unchecked-optional-access): a misfit has a range
  const c10::IntArrayRef shape = shapes[*input];
  std::string text = "input '" + inputs_[*input] + "' has shape " + text_of(shape) + ", but optimization profile " +
                     title(index) + " takes " + text_of(range);
  if (shape.size() != range.size()) {
    return text + " (" + std::to_string(range.size()) + " axes, not " + std::to_string(shape.size()) + ")";
  }
  for (std::size_t axis = 0; axis < range.size(); ++axis) {
    if (!range[axis].contain(shape[axis])) {
      text += " (axis " + std::to_string(axis) + ": " + std::to_string(shape[axis]) + " is not " +
              (range[axis].min == range[axis].max ? "" : "in ") + text_of(range[axis]) + ")";
      break;
    }
  }
  return text;
}

std::string ProfileRanges::misfit(std::int64_t index, const Shapes& shapes) const {
  const std::string text = refusal(index, shapes) + ". ";
  const auto fitting = first_that_fits(shapes);
  if (!fitting) {
    return text + (profiles_.size() == 1 ? "It is the engine's only profile" : "No profile of the engine takes it") +
           ": change the shape, or compile with a profile that covers it.";
  }
  const std::string& name = at(*fitting).name;
  return text + "Optimization profile " + title(*fitting) +
         " would fit: select it with optimization_profile(program, " +
         (name.empty() ? std::to_string(*fitting) : "\"" + name + "\"") + "), or let each call choose with \"auto\".";
}

std::string ProfileRanges::gap(const Shapes& shapes) const {
  std::string text = "no optimization profile of the engine fits: ";
  for (std::size_t i = 0; i < profiles_.size(); ++i) {
    text += (i == 0 ? "" : "; ") + refusal(static_cast<std::int64_t>(i), shapes);
  }
  return text + ". Change the shape, or compile with a profile that covers it.";
}

}  // namespace torch_tensorrt::profiles
