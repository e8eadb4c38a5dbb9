#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/runtime/layer_timings.h"

// The files that Torch-TensorRT writes after each profiled call, read by what surrounds the names in them (it does not
// escape) and written again as valid JSON.
namespace torch_tensorrt::profiles {

// Where Torch-TensorRT puts an engine's files: <folder>/<engine><suffix>.
struct TraceOwner {
  std::string folder;
  std::string engine;
  std::int64_t track = 1;  // tells the engines of one process apart in a timeline
};

// A profiler's report in one of the two formats.
struct LayerReport {
  bool is_trex = false;
  std::vector<LayerTotal> layers;
};
[[nodiscard]] LayerReport read_layer_report(std::string_view text);
[[nodiscard]] std::string write_layer_report(const LayerReport& report, const TraceOwner& owner);

// A trace of torch's RecordProfile.
[[nodiscard]] std::string rewrite_event_trace(std::string_view text, const TraceOwner& owner, std::string_view what);

// TensorRT's description of an engine's layers as valid JSON: as it is where it is that and has the names that the
// profiler reports, else repaired, else {"Layers": [the names], "unreadable": "<the text>"}.
[[nodiscard]] std::string layer_information(std::string_view text, const LayerReport& report);

// The report that Torch-TensorRT wrote after a call, and nobody has rewritten. No layers where there is none.
[[nodiscard]] LayerReport read_layers(const TraceOwner& owner);

// Rewrites all the files of a call that just ended and returns its layer report. Throws std::runtime_error where one of
// them cannot be written.
LayerReport rewrite_traces(const TraceOwner& owner);

// Replaces a file in one step, so that a reader sees the old or the new content. Throws std::runtime_error.
void replace_file(const std::string& path, std::string_view content);

}  // namespace torch_tensorrt::profiles
