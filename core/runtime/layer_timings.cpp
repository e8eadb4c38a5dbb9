#include "core/runtime/layer_timings.h"

namespace torch_tensorrt::profiles {

void LayerTimings::clear() {
  where_.clear();
  rows_.clear();
}

void LayerTimings::account(std::int64_t profile, const std::vector<LayerTotal>& totals, bool counts) {
  for (const LayerTotal& now : totals) {
    Seen before{};
    const auto known = seen_.find(now.name);
    if (known != seen_.end() && known->second.total_ms <= now.total_ms) {
      before = known->second;  // a total that fell belongs to a new profiler
    }
    const bool is_new = known == seen_.end();

    const double added_ms = now.total_ms - before.total_ms;
    const auto key = std::make_pair(profile, now.name);
    const bool ran_here_before = where_.contains(key);
    // A report without counts rounds its totals, so a short call may add nothing to a long total. But a layer that ran
    // once on this profile runs in each of its calls.
    const std::int64_t added_count =
        now.count > 0 ? now.count - before.count : static_cast<std::int64_t>(is_new || added_ms > 0 || ran_here_before);
    // Kept also where the report does not tell: a later one may, and then counts from the start.
    seen_[now.name] = {now.total_ms, now.count > 0 ? now.count : before.count + added_count};
    if (added_count <= 0) {
      continue;
    }
    if (!counts) {
      where_.try_emplace(key);
      continue;
    }
    Row& row = row_of(profile, now.name);
    row.count += added_count;
    row.total_ms += added_ms;
  }
}

void LayerTimings::add(const LayerTimings& other) {
  for (const Row& more : other.rows_) {
    Row& row = row_of(more.profile, more.layer);
    row.count += more.count;
    row.total_ms += more.total_ms;
  }
}

LayerTimings::Row& LayerTimings::row_of(std::int64_t profile, const std::string& layer) {
  std::optional<std::size_t>& row = where_[{profile, layer}];
  if (!row) {
    row = rows_.size();
    rows_.push_back({profile, layer, 0, 0});
  }
  return rows_[*row];
}

}  // namespace torch_tensorrt::profiles
