#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace torch_tensorrt::profiles {

// One layer in a profiler's report: what it has taken since that profiler was made.
struct LayerTotal {
  std::string name;
  double total_ms = 0;
  std::int64_t count = 0;  // 0 where the report does not tell
};

// An engine's time per layer and optimization profile. Torch-TensorRT's profiler adds all profiles up, so what each
// call added is credited to the profile that the call ran on.
class LayerTimings {
 public:
  struct Row {
    std::int64_t profile = 0;
    std::string layer;
    std::int64_t count = 0;
    double total_ms = 0;
  };

  // The engine has a new profiler, whose totals begin at nothing.
  void on_new_profiler() { seen_.clear(); }
  // One more call on `profile`, after which the profiler reports `totals`.
  void add_call(std::int64_t profile, const std::vector<LayerTotal>& totals) { account(profile, totals, true); }
  // One more call that is not in the rows: the same profiler reports it along with what comes later.
  void skip_call(std::int64_t profile, const std::vector<LayerTotal>& totals) { account(profile, totals, false); }
  // The rows start over; the profiler goes on.
  void clear();
  // Adds what another context of the same engine took.
  void add(const LayerTimings& other);
  // In the order in which the layers were first seen.
  [[nodiscard]] const std::vector<Row>& rows() const { return rows_; }

 private:
  struct Seen {
    double total_ms = 0;
    std::int64_t count = 0;
  };

  void account(std::int64_t profile, const std::vector<LayerTotal>& totals, bool counts);

  Row& row_of(std::int64_t profile, const std::string& layer);

  std::map<std::string, Seen> seen_;
  std::map<std::pair<std::int64_t, std::string>, std::optional<std::size_t>> where_;  // row of (profile, layer)
  std::vector<Row> rows_;
};

}  // namespace torch_tensorrt::profiles
