#include "core/runtime/profile_contexts.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "core/runtime/cuda_streams.h"
#include "core/runtime/device_memory.h"

namespace torch_tensorrt::profiles {
namespace {

// No configuration has this generation: the engine's record of it is to be written anew.
constexpr std::uint64_t kStale = std::numeric_limits<std::uint64_t>::max();

std::string title(const EngineState& state) {
  return "context_per_profile: engine '" + state.identity.name + "' ";
}

// What the making takes of the device's memory.
class DeviceMemory {
 public:
  // Makes room for a moment's second copy of the weights.
  DeviceMemory(int device, std::int64_t plan_bytes) : device_(device), free_at_start_(free_device_memory(device)) {
    if (free_at_start_ && *free_at_start_ < plan_bytes) {
      empty_device_cache();
      free_at_start_ = free_device_memory(device);
    }
  }

  [[nodiscard]] std::string free_at_start() const {
    return free_at_start_ ? std::to_string(*free_at_start_) + " bytes of the device's memory were free. " : "";
  }
  void note_peak() { peak_ = std::max(peak_, taken()); }
  void add_to(c10::Dict<std::string, std::int64_t>& report) {
    if (free_at_start_) {
      note_peak();
      report.insert("peak_device_bytes", peak_);
      report.insert("device_bytes", taken());
    }
  }

 private:
  [[nodiscard]] std::int64_t taken() const {
    return free_at_start_ ? *free_at_start_ - free_device_memory(device_).value_or(*free_at_start_) : 0;
  }

  int device_;
  std::optional<std::int64_t> free_at_start_;
  std::int64_t peak_ = 0;
};

void check_possible(const Engine& engine, const EngineState& state) {
  TORCH_CHECK(!state.is_multidevice, title(state),
              "contains collectives across GPUs (NCCL): its communicator belongs to one context, so it cannot have one "
              "per profile.");
  const std::int64_t streamable = engine.streamable_weights();
  TORCH_CHECK(
      streamable == 0, title(state), "may stream ", streamable,
      " bytes of its weights from the host: its budget for that cannot change while another context lives, so it "
      "cannot have one per profile. Compile it with enable_weight_streaming=False.");
  TORCH_CHECK(engine.has_native_members(), title(state),
              "cannot have a context per profile: this build of Torch-TensorRT does not export what makes a context. "
              "Install the torch-tensorrt-rtx or torch-tensorrt wheel.");
  TORCH_CHECK(!is_capturing(current_cuda_stream(state.identity.device)), title(state),
              "cannot get a context per profile while a CUDA stream is capturing. Do it before capturing.");
}

// `made` keeps the object, and outlives the first one's lock.
ProfileContext make_sibling(const Engine& first, const EngineState& first_state, const EngineRecord& record,
                            std::int64_t index, DeviceMemory& memory, std::vector<Engine>& made) {
  const Engine engine = made.emplace_back(first.made_from(record));
  memory.note_peak();
  TORCH_CHECK(engine.has_expected_layout(),
              "the object that was made is not of the class that Torch-TensorRT 2.14 has");
  TORCH_CHECK(engine.contexts_created() == 0,
              "a new engine object has a context already, which would keep its weights");
  engine.share_cuda_engine_of(first);
  const auto state = known_engine(engine).shared_from_this();
  const std::scoped_lock lock(state->mutex);
  state->learn(engine);
  TORCH_CHECK(state->identity.device == first_state.identity.device, "it was made on CUDA device ",
              state->identity.device, " instead of ", first_state.identity.device);
  state->is_sibling = true;
  state->context_profile = index;
  if (!first_state.runtime_settings.empty()) {
    engine.update_runtime_settings(first_state.runtime_settings);
  }
  engine.make_context();
  if (index != 0) {
    engine.set_active_profile(index, nullptr);
  }
  state->base = index;
  state->contexts_seen = engine.contexts_created();
  return {index, engine, state};
}

// Under the first object's lock, which `made` outlives.
std::shared_ptr<const ProfileContexts> make_siblings(const Engine& engine, EngineState& state,
                                                     std::vector<Engine>& made) {
  check_possible(engine, state);
  note_base(state, engine.active_profile_index());
  const auto guard = on_cuda_device(state.identity.device);
  const EngineRecord record = engine.record();
  DeviceMemory memory(state.identity.device, record.plan_bytes);
  std::vector<ProfileContext> siblings;
  try {
    for (std::int64_t index = 0; index < state.profile_count; ++index) {
      if (index != state.base) {
        siblings.push_back(make_sibling(engine, state, record, index, memory, made));
      }
    }
  } catch (const std::exception& error) {
    const auto* const of_torch = dynamic_cast<const c10::Error*>(&error);
    TORCH_CHECK(false, title(state), "gets no context per profile, and stays as it is: ",
                of_torch != nullptr ? of_torch->what_without_backtrace() : error.what(),
                ". While a context is made, a second copy of the weights is on the device (the plan has ",
                record.plan_bytes, " bytes). ", memory.free_at_start(),
                "If that is the reason, free some, or go on with one context for all profiles.");
  }
  c10::Dict<std::string, std::int64_t> report;
  report.insert("contexts", static_cast<std::int64_t>(siblings.size()));
  report.insert("home", state.base);
  report.insert("plan_bytes", record.plan_bytes);
  memory.add_to(report);
  return std::make_shared<const ProfileContexts>(state.base, std::move(siblings), std::move(report));
}

void for_each_sibling(const ProfileContexts& contexts, const std::function<void(const Engine&, EngineState&)>& visit) {
  for (const ProfileContext& sibling : contexts.siblings()) {
    const std::scoped_lock lock(sibling.state->mutex);
    visit(sibling.engine, *sibling.state);
  }
}

}  // namespace

const ProfileContext* ProfileContexts::at(std::int64_t index) const {
  const auto found = std::ranges::find(siblings_, index, &ProfileContext::index);
  return found != siblings_.end() ? &*found : nullptr;
}

ContextLock::ContextLock(const Engine& first, EngineState& state, const c10::IValue& inputs)
    : first_(first), first_state_(state) {
  choose(inputs);
  lock_ = std::unique_lock(this->state().mutex);
  while (sibling_ != nullptr && sibling_->state->is_retired) {  // it was dropped while we waited
    lock_.unlock();
    choose(inputs);
    lock_ = std::unique_lock(this->state().mutex);
  }
  if (sibling_ != nullptr) {
    mirror_output_modes();
  }
}

void ContextLock::choose(const c10::IValue& inputs) {
  sibling_ = nullptr;
  selection_.reset();
  contexts_ = first_state_.contexts.get();
  if (contexts_ == nullptr) {
    return;
  }
  const Shapes shapes = shapes_of(first_state_, inputs);
  selection_ = select_profile_without_engine(first_, first_state_, contexts_->home(), &shapes);
  if (selection_ && !selection_->is_error()) {
    sibling_ = contexts_->at(selection_->index);
  }
}

void ContextLock::mirror_output_modes() const {
  const OutputModes modes = first_.output_modes();
  if (sibling_->state->mirrored_output_modes != modes) {
    sibling_->engine.set_output_modes(modes);
    sibling_->state->mirrored_output_modes = modes;
  }
}

void for_each_sibling(const EngineState& state, const std::function<void(const Engine&, EngineState&)>& visit) {
  if (const auto contexts = state.contexts.get()) {
    for_each_sibling(*contexts, visit);
  }
}

c10::Dict<std::string, std::int64_t> make_profile_contexts(const Engine& engine) {
  EngineState& state = known_engine(engine);
  std::vector<Engine> made;  // those of a failure die after the lock
  const std::scoped_lock lock(state.mutex);
  state.learn(engine);
  auto contexts = state.contexts.get();
  if (contexts == nullptr && state.profile_count > 1) {
    contexts = make_siblings(engine, state, made);
    state.context_profile = contexts->home();
    state.applied_generation = kStale;
    const auto before = state.contexts.exchange(contexts);
  }
  if (contexts == nullptr) {
    const c10::Dict<std::string, std::int64_t> none;  // a handle
    none.insert("contexts", 0);
    return none;
  }
  ++state.context_uses;
  return contexts->report();
}

void drop_profile_contexts(const Engine& engine) {
  EngineState& state = known_engine(engine);
  std::shared_ptr<const ProfileContexts> dropped;  // dies after the lock
  const std::scoped_lock lock(state.mutex);
  if (state.context_uses == 0) {
    return;
  }
  --state.context_uses;
  if (state.context_uses > 0) {
    return;
  }
  dropped = state.contexts.exchange(nullptr);
  state.context_profile.reset();
  state.applied_generation = kStale;
  for_each_sibling(*dropped, [&state](const Engine&, EngineState& sibling) {
    wait_for(sibling.last_stream);
    sibling.is_retired = true;
    sibling.add_counters_to(state.switches, state.runs);
    state.timings.add(sibling.timings);
  });
}

}  // namespace torch_tensorrt::profiles
