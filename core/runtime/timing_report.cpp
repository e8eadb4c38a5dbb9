#include "core/runtime/timing_report.h"

#include <sstream>

#include "core/runtime/engine_registry.h"
#include "core/runtime/json.h"

namespace torch_tensorrt::profiles {
namespace {

std::string profile_label(const EngineState& state, std::int64_t index) {
  const auto at = static_cast<std::size_t>(index);
  const auto& profiles = state.identity.profiles;
  return at < profiles.size() && !profiles[at].name.empty() ? json::quote(profiles[at].name) : std::to_string(index);
}

}  // namespace

std::string timing_report() {
  std::string out;
  for (const auto& [address, state] : EngineRegistry::instance().live()) {
    std::ostringstream object;
    object << address;
    const std::scoped_lock lock(state->mutex);
    for (const LayerTimings::Row& row : state->timings.rows()) {
      out += out.empty() ? "\n" : ",\n";
      out += "  {\"engine\": " + json::quote(state->identity.name) + ", \"object_id\": " + json::quote(object.str()) +
             ", \"profile\": " + profile_label(*state, row.profile) + ", \"layer\": " + json::quote(row.layer) +
             ", \"count\": " + std::to_string(row.count) + ", \"total_ms\": " + json::number(row.total_ms) +
             ", \"mean_ms\": " + json::number(row.total_ms / static_cast<double>(row.count)) + "}";
    }
  }
  return "[" + out + "\n]\n";
}

}  // namespace torch_tensorrt::profiles
