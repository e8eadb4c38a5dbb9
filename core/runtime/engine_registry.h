#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/runtime/layer_timings.h"
#include "core/runtime/profile_ranges.h"
#include "core/runtime/torchtrt_engine.h"
#include "core/runtime/trace_layout.h"

namespace torch_tensorrt::profiles {

class ProfileContexts;

// The place of what only some engines have. Empty costs one relaxed load.
class ProfileContextsSlot {
 public:
  [[nodiscard]] std::shared_ptr<const ProfileContexts> get() const {
    return is_filled_.load(std::memory_order_relaxed) ? get_filled() : nullptr;
  }
  // Returns what was there, for the caller to drop without a lock.
  [[nodiscard]] std::shared_ptr<const ProfileContexts> exchange(std::shared_ptr<const ProfileContexts> contexts);

 private:
  [[nodiscard]] std::shared_ptr<const ProfileContexts> get_filled() const;

  std::atomic<bool> is_filled_{false};
  mutable std::mutex mutex_;  // a leaf
  std::shared_ptr<const ProfileContexts> contexts_;
};

// A profile's index, or none. Read and written without a lock.
class ProfilePin {
 public:
  [[nodiscard]] std::optional<std::int64_t> get() const {
    const std::int64_t index = index_.load(std::memory_order_acquire);
    return index == kNone ? std::nullopt : std::optional(index);
  }
  void set(std::optional<std::int64_t> index) { index_.store(index.value_or(kNone), std::memory_order_release); }

 private:
  static constexpr std::int64_t kNone = -1;
  std::atomic<std::int64_t> index_{kNone};
};

// What we know of one live engine object.
struct EngineState : std::enable_shared_from_this<EngineState> {
  // Held over every use of the engine, the call itself included. It guards all that follows.
  //
  // Lock order: an engine's mutex (Torch-TensorRT's own engine->mu comes inside it), then its siblings' (see
  // ProfileContexts), one at a time, then the configuration's. The registry's, the trace layout's and the slots' are
  // leaves, never held together. Under any of them: no Python, no dropping of
  // tensors or engines, no warning (DeferredWarnings). The GIL may be held when they are taken: AOTInductor does not
  // release it.
  std::mutex mutex;

  const std::int64_t track;  // numbers the engines of the process
  explicit EngineState(std::int64_t number) : track(number) {}

  // Reads the facts down to is_multidevice, once; from then on they may be read without the lock.
  void learn(const Engine& engine);
  std::atomic<bool> is_known{false};
  EngineIdentity identity;
  std::int64_t profile_count = 1;
  ProfileRanges ranges;
  bool is_multidevice = false;

  // Read without the lock too: with a context per profile, the pin tells which object's lock to take.
  ProfilePin pin;
  std::int64_t base = 0;                    // the index that anybody else last set
  std::optional<std::int64_t> switched_to;  // ours, where it is not the base
  bool has_failed = false;                  // the last call threw
  std::int64_t switches = 0;
  std::vector<std::int64_t> runs;          // calls per profile
  std::optional<c10::Stream> last_stream;  // of the last caller

  std::int64_t contexts_seen = -1;  // counter of contexts when we last put things right; -1: never
  std::uint64_t applied_generation = 0;
  bool is_switched_on = false;  // the process-wide switch is on, as far as this engine knows
  bool is_suspended = false;    // switched on, but not profiled: torch.profiler is active on the calling thread

  // By the engine's owner, through the engine's own methods. Not known of what was asked for before activation.
  bool is_profiled_by_owner = false;
  std::string own_format;
  std::optional<std::uint64_t> declined_generation;  // the configuration whose profiling the owner ended

  bool is_profiled = false;  // by the switch, with what follows; where the owner does too, the profiler is the owner's
  std::string format;
  bool format_is_due = false;   // the owner has made a new profiler or set its format since
  std::string own_path_prefix;  // the engine's, before the switch profiled it
  [[nodiscard]] bool has_profiler() const { return is_profiled || is_profiled_by_owner; }
  std::unique_ptr<TraceClaim> claim;
  std::uint64_t warned_generation = 0;  // one warning per configuration
  LayerTimings timings;

  // What the owner last gave to update_runtime_settings(), which no getter tells.
  std::vector<c10::IValue> runtime_settings;

  // A context per profile (see ProfileContexts).
  ProfileContextsSlot contexts;                 // the siblings of a first object
  std::int64_t context_uses = 0;                // how often they were asked for
  std::optional<std::int64_t> context_profile;  // what the object's context is for, a first object's and a sibling's
  bool is_sibling = false;
  std::optional<OutputModes> mirrored_output_modes;  // of a sibling: what it has from the first object
  bool is_retired = false;                           // of a sibling: calls that come now go elsewhere
  // The name of context_profile, "profile_<i>" where it has none; "" for an object that runs every profile.
  [[nodiscard]] std::string context_title() const;
  // Adds what this object did to another's counters.
  void add_counters_to(std::int64_t& other_switches, std::vector<std::int64_t>& other_runs) const;
};

// The state of every engine that has come by. Keyed by address: an engine announces its own end, so no state outlives
// it.
class EngineRegistry {
 public:
  static EngineRegistry& instance();

  // Makes the state at first sight. Valid as long as the engine lives, which whoever has an Engine sees to. Null for an
  // object that is not the engine we know, which is then left alone.
  EngineState* of(const Engine& engine);
  // With the engines' addresses. Each state may outlive its engine in the result.
  [[nodiscard]] std::vector<std::pair<const void*, std::shared_ptr<EngineState>>> live() const;

 private:
  void forget(const void* address) noexcept;

  mutable std::shared_mutex mutex_;
  std::int64_t seen_ = 0;
  std::unordered_map<const void*, std::shared_ptr<EngineState>> states_;
};

}  // namespace torch_tensorrt::profiles
