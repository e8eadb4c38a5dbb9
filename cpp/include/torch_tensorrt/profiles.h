#pragma once

#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "torch_tensorrt/profiles/dispatch.h"

// Named optimization profiles and process-wide engine profiling of Torch-TensorRT, for programs without Python.
//
//   torch_tensorrt::profiles::activate();                        // once, Torch-TensorRT's library being loaded
//   torch::inductor::AOTIModelPackageLoader llm("llm.pt2");
//   {
//     torch_tensorrt::profiles::OptimizationProfileGuard decode(llm, "decode");   // for this thread, in this block
//     outputs = llm.run(inputs);
//   }
//
// Needs the headers of torch and no others. Link with the CMake target
// torch_tensorrt_profiles::torch_tensorrt_profiles.
namespace torch_tensorrt::profiles {

// --- Activation

// Extends Torch-TensorRT in this process. Idempotent. Libraries may be loaded in any order, but by now Torch-TensorRT's
// has to be (libtorchtrt_runtime.so or libtorchtrt.so). Throws std::runtime_error that says what is wrong; nothing is
// changed then.
inline void activate() {
  if (const char* problem = ::torchtrt_profiles_activate()) {
    throw std::runtime_error(problem);
  }
}

// Leaves Torch-TensorRT as it was. Idempotent. Throws std::runtime_error.
inline void deactivate() {
  if (const char* problem = ::torchtrt_profiles_deactivate()) {
    throw std::runtime_error(problem);
  }
}

inline bool is_active() {
  return detail::find_active("tensorrt::get_profiling_config").has_value();
}

// --- Process-wide engine profiling. Everything here throws std::runtime_error where activate() was not called.

enum class TraceFormat : std::uint8_t { kPerfetto, kTrex };

struct ProfilingConfig {
  bool enabled = false;
  TraceFormat format = TraceFormat::kPerfetto;
  std::string path_prefix;      // the folder that traces are written to
  std::int64_t generation = 0;  // how often the configuration has been set; ignored where one is set
};

namespace detail {

inline std::string_view name_of(TraceFormat format) {
  return format == TraceFormat::kTrex ? "trex" : "perfetto";
}

inline TraceFormat format_of(const std::string& name) {
  return name == "trex" ? TraceFormat::kTrex : TraceFormat::kPerfetto;
}

}  // namespace detail

// All of one revision.
inline ProfilingConfig profiling_config() {
  const auto [enabled, format, path_prefix, generation] =
      detail::call<std::tuple<bool, std::string, std::string, std::int64_t>>("tensorrt::get_profiling_config");
  return {enabled, detail::format_of(format), path_prefix, generation};
}

// Sets all three of every engine in the process, which each applies on its next call. Throws c10::Error for a folder
// that cannot be made or written to; nothing is changed then.
inline void set_profiling_config(const ProfilingConfig& config) {
  detail::call<void>("tensorrt::set_profiling_config", config.enabled, std::string(detail::name_of(config.format)),
                     std::string(config.path_prefix));
}

inline void set_profile_execution(bool enabled) {
  detail::call<void>("tensorrt::set_profile_execution", enabled);
}
template <typename T>
  requires(!std::is_same_v<T, bool>)
void set_profile_execution(T) = delete;  // a pointer or a number is no yes or no

inline void set_profile_format(TraceFormat format) {
  detail::call<void>("tensorrt::set_profile_format", std::string(detail::name_of(format)));
}

inline void set_profile_path_prefix(std::string folder) {
  detail::call<void>("tensorrt::set_profile_path_prefix", std::move(folder));
}

inline bool profile_execution() {
  return profiling_config().enabled;
}

inline TraceFormat profile_format() {
  return profiling_config().format;
}

inline std::string profile_path_prefix() {
  return profiling_config().path_prefix;
}

inline std::int64_t profile_generation() {
  return profiling_config().generation;
}

// A JSON list: engine, object_id, profile, layer, count, total_ms, mean_ms of every live engine that was profiled.
inline std::string engine_timing() {
  return detail::call<std::string>("tensorrt::dump_engine_timing");
}

// Restores the whole profiling configuration when it goes. An engine applies what is restored on its next call.
class ProfilingGuard {
 public:
  ProfilingGuard() : before_(profiling_config()) {}
  // Sets one until then. Throws as set_profiling_config does.
  explicit ProfilingGuard(const ProfilingConfig& meanwhile) : ProfilingGuard() { set_profiling_config(meanwhile); }

  ~ProfilingGuard() {
    try {
      set_profiling_config(before_);
    } catch (const std::exception& error) {  // its folder may be gone
      detail::warn("the profiling configuration is not restored: ", error);
      try {
        set_profile_execution(before_.enabled);
      } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): has been told
      }
    }
  }

  ProfilingGuard(const ProfilingGuard&) = delete;
  ProfilingGuard& operator=(const ProfilingGuard&) = delete;
  ProfilingGuard(ProfilingGuard&&) = delete;
  ProfilingGuard& operator=(ProfilingGuard&&) = delete;

 private:
  ProfilingConfig before_;
};

// --- Engines

// The shapes that a profile allows for an input.
struct ShapeRange {
  std::vector<std::int64_t> min;
  std::vector<std::int64_t> opt;
  std::vector<std::int64_t> max;
};

// One optimization profile of an engine; both are empty where the engine was compiled without names.
struct Profile {
  std::string name;
  std::map<std::string, ShapeRange> inputs;  // by input binding
};

// A live engine. Holds it: a handle that is kept keeps the engine's memory.
class EngineHandle {
 public:
  // Throws std::invalid_argument for what is no engine of Torch-TensorRT.
  explicit EngineHandle(c10::IValue engine) : engine_(std::move(engine)) { detail::require_engine(engine_); }

  // Torch-TensorRT's name of it, which its traces carry too.
  [[nodiscard]] std::string name() const {
    const auto place = c10::Dispatcher::singleton().findSchemaOrThrow("tensorrt::NAME_IDX", "").typed<std::int64_t()>();
    const c10::IValue fields = detail::call_method(engine_, "serialize_metadata_only");
    return fields.toListRef().at(static_cast<std::size_t>(place.call())).toStringRef();
  }

  [[nodiscard]] std::int64_t profile_count() const {
    const std::int64_t count = detail::get_property(engine_, "num_optimization_profiles").toInt();
    return count > 1 ? count : 1;
  }

  // By index: names and ranges. Of an engine that was compiled without, that many with neither. Throws c10::Error where
  // the engine's record of them is damaged or of a newer version, or names another number than it has, and
  // std::runtime_error where activate() was not called.
  [[nodiscard]] std::vector<Profile> profiles() const {
    torch::jit::Stack lists{engine_};
    detail::require_active("tensorrt::get_optimization_profiles").callBoxed(lists);
    std::vector<Profile> profiles;
    for (const std::string& name : lists.at(0).to<std::vector<std::string>>()) {
      profiles.push_back({name, {}});
    }
    using Shapes = std::vector<std::vector<std::int64_t>>;
    const auto indices = lists.at(1).toIntVector();
    const auto inputs = lists.at(2).to<std::vector<std::string>>();
    const auto min = lists.at(3).to<Shapes>();
    const auto opt = lists.at(4).to<Shapes>();
    const auto max = lists.at(5).to<Shapes>();
    for (std::size_t row = 0; row < indices.size(); ++row) {
      profiles.at(static_cast<std::size_t>(indices[row])).inputs[inputs[row]] = {min[row], opt[row], max[row]};
    }
    return profiles;
  }

  [[nodiscard]] const c10::IValue& ivalue() const { return engine_; }

 private:
  c10::IValue engine_;
};

// The engines inside a package, in a fixed order. The package may have been compiled by stock Torch-TensorRT.
inline std::vector<EngineHandle> engines_of(const torch::inductor::AOTIModelPackageLoader& package) {
  std::map<std::pair<std::size_t, std::string>, c10::IValue> in_order;  // "_torchbind_obj10" after "_torchbind_obj9"
  for (const auto& [name, object] : package.get_custom_objs()) {
    if (detail::is_engine(object)) {
      in_order.emplace(std::make_pair(name.size(), name), object);
    }
  }
  std::vector<EngineHandle> engines;
  engines.reserve(in_order.size());
  for (auto& [name, object] : in_order) {
    engines.emplace_back(std::move(object));
  }
  return engines;
}

// --- Selecting a profile

// Each call chooses by its shapes: the profile that the engine is set to if it fits, else the first declared that fits.
struct Automatic {};
inline constexpr Automatic automatic{};

// Which profile: its name, its index, or automatic. There is no index that means anything else, and no conversion from
// bool or nullptr.
class ProfileChoice {
 public:
  explicit(false) ProfileChoice(Automatic /*by shape*/) : which_(Automatic{}) {}
  explicit(false) ProfileChoice(std::string_view name) : which_(std::string(name)) {}
  explicit(false) ProfileChoice(const std::string& name) : which_(name) {}
  explicit(false) ProfileChoice(const char* name) : ProfileChoice(std::string_view(name)) {}
  template <typename Index>
    requires(std::is_integral_v<Index> && !std::is_same_v<Index, bool>)
  explicit(false) ProfileChoice(Index index) : which_(checked(index)) {}
  template <typename Bool>
    requires std::is_same_v<Bool, bool>
  explicit(false) ProfileChoice(Bool) = delete;
  ProfileChoice(std::nullptr_t) = delete;

  // Per engine: the index, or nothing for an engine that the choice does not concern. Throws std::invalid_argument for
  // a name, std::out_of_range for an index, that no engine has; the message lists what there is.
  [[nodiscard]] std::vector<std::pair<EngineHandle, std::int64_t>> among(
      const std::vector<EngineHandle>& engines) const;

 private:
  template <typename Index>
  static std::int64_t checked(Index index) {
    if constexpr (std::is_signed_v<Index>) {
      if (index < 0) {
        throw std::out_of_range("optimization profile index " + std::to_string(index) +
                                " is negative; a profile's index starts at 0");
      }
    } else if (index > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      throw std::out_of_range("optimization profile index " + std::to_string(index) + " is too large");
    }
    return static_cast<std::int64_t>(index);
  }

  std::variant<Automatic, std::string, std::int64_t> which_;
};

// What a call does whose shapes the selected profile does not take.
enum class OnMisfit : std::uint8_t {
  kRaise,
  kFallBack,  // runs on the first profile that does, with one warning per guard
};

// Selects an optimization profile for the calls that this thread makes while it lives. Other threads and the engines of
// other programs are not affected. Guards nest. Has to go on the thread that made it, before those made before it.
class OptimizationProfileGuard {
 public:
  // Throws as ProfileChoice::among does, and std::runtime_error where activate() was not called; nothing is selected
  // then.
  OptimizationProfileGuard(const torch::inductor::AOTIModelPackageLoader& package, const ProfileChoice& profile,
                           OnMisfit on_misfit = OnMisfit::kRaise)
      : OptimizationProfileGuard(engines_of(package), profile, on_misfit) {}

  OptimizationProfileGuard(const std::vector<EngineHandle>& engines, const ProfileChoice& profile,
                           OnMisfit on_misfit = OnMisfit::kRaise) {
    std::vector<c10::IValue> objects;
    std::vector<std::int64_t> indices;
    for (const auto& [engine, index] : profile.among(engines)) {
      objects.push_back(engine.ivalue());
      indices.push_back(index);
    }
    token_ = detail::push_profile_scope(objects, indices, on_misfit == OnMisfit::kFallBack);
  }

  ~OptimizationProfileGuard() {
    try {
      detail::call<void>("tensorrt::_pop_profile_scope", token_);
    } catch (const std::exception& error) {
      detail::warn("", error);
    }
  }

  OptimizationProfileGuard(const OptimizationProfileGuard&) = delete;
  OptimizationProfileGuard& operator=(const OptimizationProfileGuard&) = delete;
  OptimizationProfileGuard(OptimizationProfileGuard&&) = delete;
  OptimizationProfileGuard& operator=(OptimizationProfileGuard&&) = delete;

 private:
  std::int64_t token_ = 0;
};

// --- Implementation

namespace detail {

inline std::string listed(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) {
    out += (out.empty() ? "'" : ", '") + name + "'";
  }
  return out;
}

using Chosen = std::vector<std::pair<EngineHandle, std::int64_t>>;

inline Chosen chosen_by_name(const std::vector<EngineHandle>& engines, const std::string& name) {
  Chosen chosen;
  std::vector<std::string> known;
  for (const EngineHandle& engine : engines) {
    const std::vector<Profile> profiles = engine.profiles();
    for (std::size_t index = 0; index < profiles.size(); ++index) {
      const std::string& candidate = profiles[index].name;
      if (candidate == name && !name.empty()) {
        chosen.emplace_back(engine, static_cast<std::int64_t>(index));
      }
      if (!candidate.empty() && std::ranges::find(known, candidate) == known.end()) {
        known.push_back(candidate);
      }
    }
  }
  if (chosen.empty()) {
    throw std::invalid_argument(
        known.empty()
            ? "profile '" + name + "' was selected by name, but these engines have no profile names; select by index"
            : "unknown optimization profile '" + name + "'; there are " + listed(known));
  }
  return chosen;
}

inline Chosen chosen_by_index(const std::vector<EngineHandle>& engines, std::int64_t index) {
  Chosen chosen;
  std::int64_t most = 1;
  for (const EngineHandle& engine : engines) {
    const std::int64_t count = engine.profile_count();
    most = count > most ? count : most;
    // An engine with one profile, for shapes that do not vary, has nothing to select.
    if (index < count && (count > 1 || index == 0)) {
      chosen.emplace_back(engine, index);
    } else if (count > 1) {
      throw std::out_of_range("optimization profile index " + std::to_string(index) + " is out of range for engine '" +
                              engine.name() + "', which has profiles 0 to " + std::to_string(count - 1));
    }
  }
  if (chosen.empty()) {
    throw std::out_of_range("optimization profile index " + std::to_string(index) +
                            " is out of range: the engines have profiles 0 to " + std::to_string(most - 1));
  }
  return chosen;
}

}  // namespace detail

inline std::vector<std::pair<EngineHandle, std::int64_t>> ProfileChoice::among(
    const std::vector<EngineHandle>& engines) const {
  if (engines.empty()) {
    throw std::invalid_argument("there is no TensorRT engine to select an optimization profile on");
  }
  if (const auto* name = std::get_if<std::string>(&which_)) {
    return detail::chosen_by_name(engines, *name);
  }
  if (const auto* index = std::get_if<std::int64_t>(&which_)) {
    return detail::chosen_by_index(engines, *index);
  }
  detail::Chosen chosen;
  for (const EngineHandle& engine : engines) {
    chosen.emplace_back(engine, detail::kByShape);
  }
  return chosen;
}

}  // namespace torch_tensorrt::profiles
