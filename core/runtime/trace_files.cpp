#include "core/runtime/trace_files.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iterator>
#include <locale>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <system_error>

#include "core/runtime/json.h"

namespace torch_tensorrt::profiles {
namespace {

struct PhaseFile {
  const char* suffix;
  const char* what;
};
constexpr std::array kPhaseFiles{
    PhaseFile{"_device_config_profile.trace", "device selection"}, PhaseFile{"_input_profile.trace", "input packing"},
    PhaseFile{"_output_profile.trace", "output packing"}, PhaseFile{"_enqueue_profile.trace", "enqueue"}};
constexpr const char* kLayerSuffix = "_engine_execution_profile.trace";
constexpr const char* kInformationSuffix = "_layer_information.json";

struct Event {
  std::string name;
  double timestamp_us = 0;
  double duration_us = 0;
  std::int64_t thread = 1;
};

// Reads forward over known text.
class Cursor {
 public:
  Cursor(std::string_view text, std::size_t at) : text_(text), at_(at) {}

  [[nodiscard]] std::size_t at() const { return at_; }

  // `word` after any white space.
  bool word(std::string_view word) {
    const std::size_t start = text_.find_first_not_of(" \t\r\n", at_);
    if (start == std::string_view::npos || text_.substr(start, word.size()) != word) {
      return false;
    }
    at_ = start + word.size();
    return true;
  }

  bool number(double& value) {
    const std::size_t start = text_.find_first_not_of(' ', at_);
    if (start == std::string_view::npos) {
      return false;
    }
    const std::size_t end = text_.find_first_of(", \n}", start);
    const std::string digits(text_.substr(start, end - start));
    at_ = end == std::string_view::npos ? text_.size() : end;
    std::istringstream stream(digits);
    stream.imbue(std::locale::classic());
    if (!(stream >> value)) {
      value = 0;  // "nan" of a profile that took no time at all
    }
    return !digits.empty();
  }

 private:
  std::string_view text_;
  std::size_t at_;
};

// The fields behind a name, `at` being its closing quote. Nothing where the name goes on.
std::optional<Event> event_fields(std::string_view text, std::size_t at) {
  Cursor cursor(text, at);
  Event event;
  double thread = 1;
  if (!cursor.word("\",") || !cursor.word("\"ph\": \"X\",") || !cursor.word("\"ts\":") ||
      !cursor.number(event.timestamp_us) || !cursor.word(",") || !cursor.word("\"dur\":") ||
      !cursor.number(event.duration_us) || !cursor.word(",") || !cursor.word("\"tid\":") || !cursor.number(thread)) {
    return std::nullopt;
  }
  event.thread = static_cast<std::int64_t>(thread);
  return event;
}

std::optional<LayerTotal> trex_fields(std::string_view text, std::size_t at) {
  Cursor cursor(text, at);
  LayerTotal layer;
  double average_ms = 0;
  double percentage = 0;
  if (!cursor.word("\",") || !cursor.word("\"timeMs\":") || !cursor.number(layer.total_ms) || !cursor.word(",") ||
      !cursor.word("\"averageMs\":") || !cursor.number(average_ms) || !cursor.word(",") ||
      !cursor.word("\"percentage\":") || !cursor.number(percentage)) {
    return std::nullopt;
  }
  layer.count = average_ms > 0 ? std::llround(layer.total_ms / average_ms) : 1;
  return layer;
}

// Calls `take(name, closing_quote)` for each record in turn; it says whether the name really ends there.
template <typename Take>
void for_each_name(std::string_view text, const Take& take) {
  static constexpr std::string_view kName = "\"name\": \"";
  for (std::size_t start = text.find(kName); start != std::string_view::npos; start = text.find(kName, start)) {
    start += kName.size();
    for (std::size_t end = text.find("\",", start); end != std::string_view::npos; end = text.find("\",", end + 1)) {
      if (take(text.substr(start, end - start), end)) {
        start = end;
        break;
      }
    }
  }
}

std::vector<Event> read_events(std::string_view text) {
  std::vector<Event> events;
  for_each_name(text, [&](std::string_view name, std::size_t end) {
    auto event = event_fields(text, end);
    if (!event) {
      return false;
    }
    event->name = name;
    events.push_back(*std::move(event));
    return true;
  });
  return events;
}

std::string metadata_event(std::string_view kind, std::int64_t track, const std::string& name) {
  return "  {\"name\": " + json::quote(kind) + ", \"ph\": \"M\", \"ts\": 0, \"pid\": " + std::to_string(::getpid()) +
         ", \"tid\": " + std::to_string(track) + ", \"args\": {\"name\": " + json::quote(name) + "}}";
}

// Of both formats. Torch-TensorRT's have a line break after the brace.
constexpr std::string_view kOurBeginning = "[\n  {\"name\": \"";

// The trace event format that Perfetto and chrome://tracing read.
std::string write_events(const std::vector<Event>& events, std::int64_t track, const std::string& thread_name) {
  std::string out = "[\n" + metadata_event("process_name", track, "Torch-TensorRT " + std::to_string(::getpid())) +
                    ",\n" + metadata_event("thread_name", track, thread_name);
  for (const Event& event : events) {
    out += ",\n  {\"name\": " + json::quote(event.name) +
           ", \"ph\": \"X\", \"ts\": " + json::number(event.timestamp_us) +
           ", \"dur\": " + json::number(event.duration_us) + ", \"pid\": " + std::to_string(::getpid()) +
           ", \"tid\": " + std::to_string(event.thread) + ", \"args\": {}}";
  }
  return out + "\n]\n";
}

// Nothing where there is no file, or where Torch-TensorRT has not written it since we did.
std::optional<std::string> read_fresh(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    return std::nullopt;
  }
  std::string text(std::istreambuf_iterator<char>(in), {});
  return text.starts_with(kOurBeginning) ? std::nullopt : std::optional<std::string>(std::move(text));
}

std::string stem_of(const TraceOwner& owner) {
  return owner.folder + "/" + owner.engine;
}

// How many of the names the description's layers do not have.
std::size_t missing_from(const json::Value& information, const std::vector<std::string>& names) {
  std::set<std::string_view> found;
  const json::Value* layers = information.find("Layers");
  if (layers != nullptr && layers->array() != nullptr) {
    for (const json::Value& layer : *layers->array()) {
      const json::Value* name = layer.string() != nullptr ? &layer : layer.find("Name");
      if (name != nullptr && name->string() != nullptr) {
        found.insert(*name->string());
      }
    }
  }
  return static_cast<std::size_t>(
      std::ranges::count_if(names, [&found](const std::string& name) { return !found.contains(json::utf8(name)); }));
}

}  // namespace

LayerReport read_layer_report(std::string_view text) {
  LayerReport report;
  for_each_name(text, [&](std::string_view name, std::size_t end) {
    LayerTotal layer;
    if (const auto event = event_fields(text, end)) {
      layer.total_ms = event->duration_us / 1000;
    } else if (const auto trex = trex_fields(text, end)) {
      layer = *trex;
      report.is_trex = true;
    } else {
      return false;
    }
    layer.name = name;
    report.layers.push_back(std::move(layer));
    return true;
  });
  return report;
}

std::string write_layer_report(const LayerReport& report, const TraceOwner& owner) {
  double sum_ms = 0;
  if (!report.is_trex) {
    std::vector<Event> events;
    for (const LayerTotal& layer : report.layers) {
      events.push_back({layer.name, sum_ms * 1000, layer.total_ms * 1000, owner.track});
      sum_ms += layer.total_ms;
    }
    return write_events(events, owner.track, owner.engine + " Engine Execution");
  }
  for (const LayerTotal& layer : report.layers) {
    sum_ms += layer.total_ms;
  }
  std::string out = "[";
  for (const LayerTotal& layer : report.layers) {
    out += out.size() > 1 ? ",\n" : "\n";
    const double percentage = sum_ms > 0 ? layer.total_ms * 100 / sum_ms : 0;
    const double average_ms = layer.count > 0 ? layer.total_ms / static_cast<double>(layer.count) : 0;
    out += "  {\"name\": " + json::quote(layer.name) + ", \"timeMs\": " + json::number(layer.total_ms) +
           ", \"averageMs\": " + json::number(average_ms) + ", \"percentage\": " + json::number(percentage) + "}";
  }
  return out + "\n]\n";
}

std::string rewrite_event_trace(std::string_view text, const TraceOwner& owner, std::string_view what) {
  std::string thread_name = owner.engine + " ";
  thread_name += what;
  std::vector<Event> events = read_events(text);
  for (Event& event : events) {
    event.thread = owner.track;
  }
  return write_events(events, owner.track, thread_name);
}

std::string layer_information(std::string_view text, const LayerReport& report) {
  std::vector<std::string> names;
  names.reserve(report.layers.size());
  for (const LayerTotal& layer : report.layers) {
    names.push_back(layer.name);
  }
  std::vector<std::string> longest_first = names;
  std::ranges::sort(longest_first, std::greater{}, &std::string::size);

  // As it is, else with the layers in the order in which they ran, else with none taken for the beginning of another. A
  // layer may be missing from all of them: TensorRT does not describe each one that it reports.
  constexpr std::size_t kNoJson = std::string::npos;
  std::string best;
  std::size_t fewest_missing = kNoJson;
  const auto consider = [&](std::string candidate) {
    const auto information = json::parse(candidate);
    const std::size_t missing = information ? missing_from(*information, names) : kNoJson;
    if (missing < fewest_missing) {
      fewest_missing = missing;
      best = std::move(candidate);
    }
    return fewest_missing == 0;
  };
  if (consider(std::string(text)) || consider(json::with_strings_escaped(text, names)) ||
      consider(json::with_strings_escaped(text, longest_first)) || fewest_missing != kNoJson) {
    return best;
  }
  std::string layers;
  for (const std::string& name : names) {
    layers += (layers.empty() ? "" : ", ") + json::quote(name);
  }
  return "{\"Layers\": [" + layers + "], \"unreadable\": " + json::quote(text) + "}\n";
}

LayerReport read_layers(const TraceOwner& owner) {
  const auto text = read_fresh(stem_of(owner) + kLayerSuffix);
  return text ? read_layer_report(*text) : LayerReport();
}

void replace_file(const std::string& path, std::string_view content) {
  const std::string fresh = path + "." + std::to_string(::getpid()) + ".new";
  std::ofstream out(fresh, std::ios::binary | std::ios::trunc);
  out << content;
  out.close();
  if (!out || std::rename(fresh.c_str(), path.c_str()) != 0) {
    const std::string why = std::generic_category().message(errno);
    ::unlink(fresh.c_str());
    throw std::runtime_error("'" + path + "' cannot be written: " + why);
  }
}

LayerReport rewrite_traces(const TraceOwner& owner) {
  const std::string stem = stem_of(owner);
  for (const PhaseFile& phase : kPhaseFiles) {
    if (const auto text = read_fresh(stem + phase.suffix)) {
      replace_file(stem + phase.suffix, rewrite_event_trace(*text, owner, phase.what));
    }
  }
  LayerReport report;
  if (const auto text = read_fresh(stem + kLayerSuffix)) {
    report = read_layer_report(*text);
    replace_file(stem + kLayerSuffix, write_layer_report(report, owner));
  }
  if (const auto text = read_fresh(stem + kInformationSuffix)) {
    replace_file(stem + kInformationSuffix, layer_information(*text, report));
  }
  return report;
}

}  // namespace torch_tensorrt::profiles
