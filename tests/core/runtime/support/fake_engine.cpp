#include "tests/core/runtime/support/fake_engine.h"

#include <c10/core/Stream.h>
#include <torch/csrc/autograd/profiler_legacy.h>
#include <torch/library.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <utility>

namespace c10::cuda {
class CUDAStream {
 public:
  c10::Stream stream;
};
}  // namespace c10::cuda

namespace {

[[noreturn]] void broken(const std::string& what) {
  std::fprintf(stderr, "fake engine: contract broken: %s\n", what.c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace

namespace nvinfer1 {

std::atomic<std::int64_t> DeviceMemory::free{1'000'000'000'000};

DeviceMemory::DeviceMemory(std::int64_t bytes) : bytes_(bytes) {
  if (free.fetch_sub(bytes) < bytes) {
    free += bytes;
    TORCH_CHECK(false, "out of device memory");
  }
}

DeviceMemory::~DeviceMemory() {
  free += bytes_;
}

std::atomic<int> IRuntime::alive{0};
IRuntime::~IRuntime() {
  --alive;
}

std::atomic<int> ICudaEngine::alive{0};

ICudaEngine::ICudaEngine(const std::shared_ptr<IRuntime>& runtime, std::int64_t weight_bytes)
    : weights_(weight_bytes), runtime_(runtime) {
  ++alive;
}

ICudaEngine::~ICudaEngine() {
  if (runtime_.expired()) {
    broken("an ICudaEngine outlives its IRuntime");
  }
  if (contexts != 0) {
    broken("an ICudaEngine dies before its contexts");
  }
  --alive;
}

IExecutionContext::IExecutionContext(ICudaEngine& of, std::int64_t activation_bytes)
    : cuda_engine(of), activations_(activation_bytes) {
  ++of.contexts;
}

IExecutionContext::~IExecutionContext() {
  --cuda_engine.contexts;
}

}  // namespace nvinfer1

namespace torch_tensorrt::core::runtime {

FAKE_MEMBER int CUDAGRAPHS_MODE = 0;  // exported, and read by others, as in 2.14

namespace {

std::atomic<int> engines{0};
std::mutex plans_mutex;
std::map<std::string, std::weak_ptr<Plan>> plans;

// Places in an engine's record.
constexpr std::size_t kAbi = 0;
constexpr std::size_t kName = 1;
constexpr std::size_t kDevice = 2;
constexpr std::size_t kPlan = 3;
constexpr std::size_t kInputs = 4;
constexpr std::size_t kMetadata = 7;
constexpr std::size_t kResources = 10;
constexpr std::size_t kFields = 13;

}  // namespace

// What an engine is deserialised from. Its bytes are its name.
struct Plan {
  explicit Plan(FakeOptions of) : options(std::move(of)) {
    static std::atomic<int> numbers{0};
    name = "plan " + std::to_string(++numbers);
  }
  ~Plan() {
    const std::scoped_lock lock(plans_mutex);
    plans.erase(name);
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  static std::shared_ptr<Plan> make(FakeOptions of) {
    auto plan = std::make_shared<Plan>(std::move(of));
    const std::scoped_lock lock(plans_mutex);
    plans[plan->name] = plan;
    return plan;
  }
  static std::shared_ptr<Plan> find(const std::string& name) {
    const std::scoped_lock lock(plans_mutex);
    const auto found = plans.find(name);
    auto plan = found != plans.end() ? found->second.lock() : nullptr;
    TORCH_CHECK(plan != nullptr, "Unable to deserialize the TensorRT engine");
    return plan;
  }

  FakeOptions options;
  std::string name;
  std::weak_ptr<nvinfer1::ICudaEngine> weights;  // of the first engine
};

int live_engines() {
  return engines;
}

class Profiler {
 public:
  struct Record {
    float time = 0;
    int count = 0;
  };

  void report(const FakeLayer& layer) {
    if (!records.contains(layer.name)) {
      order.push_back(layer.name);
    }
    records[layer.name].time += layer.ms;
    ++records[layer.name].count;
  }

  // The text that 2.14 writes, without any escaping; no layers give "]" alone.
  [[nodiscard]] std::string text(const std::string& engine) const {
    std::ostringstream out;
    double sum = 0;
    for (const auto& name : order) {
      sum += records.at(name).time;
    }
    double start = 0;
    out << "[\n";
    for (const auto& name : order) {
      const Record& record = records.at(name);
      out << "  {\n    \"name\": \"" << name << "\",\n";
      if (trex) {
        out << "    \"timeMs\": " << record.time
            << ",\n    \"averageMs\": " << record.time / static_cast<float>(record.count)
            << ",\n    \"percentage\": " << (record.time * 100.0 / sum) << "\n";
      } else {
        out << "    \"ph\": \"X\",\n    \"ts\": " << start * 1000 << ",\n    \"dur\": " << record.time * 1000
            << ",\n    \"tid\": 1,\n    \"pid\": \"" << engine << " Engine Execution\",\n    \"args\": {}\n";
      }
      out << "  },\n";
      start += record.time;
    }
    out.seekp(-2, std::ios_base::cur);
    out << "\n]\n";
    return out.str();
  }

  bool trex = false;
  std::vector<std::string> order;
  std::map<std::string, Record> records;
};

// Any method that overlaps a call, or another method, of another thread breaks the contract; calls may overlap each
// other.
class TRTEngine::Use {
 public:
  Use(TRTEngine& engine, const char* what, bool is_call = false) : engine_(engine), is_call_(is_call) {
    const bool within_own_call = engine.executing_thread_.load() == std::this_thread::get_id();
    (is_call_ ? engine_.executions_ : engine_.methods_).fetch_add(1);
    if (!within_own_call && (engine_.methods_ > (is_call_ ? 0 : 1) || (!is_call_ && engine_.executions_ > 0))) {
      broken(std::string(what) + " overlaps another use of engine '" + engine.options_.name + "'");
    }
  }
  ~Use() { (is_call_ ? engine_.executions_ : engine_.methods_).fetch_sub(1); }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

 private:
  TRTEngine& engine_;
  bool is_call_;
};

TRTEngine::TRTEngine(FakeOptions options) : TRTEngine(Plan::make(std::move(options))) {}

TRTEngine::TRTEngine(std::vector<std::string> record) : TRTEngine(Plan::find(record.at(kPlan))) {
  dynamic_resources_ = record.at(kResources) == "1";
}

TRTEngine::TRTEngine(const std::shared_ptr<Plan>& plan)
    : rt(new nvinfer1::IRuntime()),
      cuda_engine(new nvinfer1::ICudaEngine(rt, plan->options.weight_bytes)),
      plan_(plan),
      options_(plan->options) {
  ++engines;
  if (plan->weights.expired()) {
    plan->weights = cuda_engine;
  }
  if (options_.requires_native_multidevice) {
    bind_nccl_comm();
  }
}

TRTEngine::~TRTEngine() {
  if (executions_ != 0) {
    broken("destroyed while a call is under way");
  }
  context_.reset();
  cuda_engine.reset();
  rt.reset();
  --engines;
}

void TRTEngine::enable_profiling() {
  const Use use(*this, "enable_profiling");
  log.emplace_back("enable_profiling");
  profile_execution_ = true;
  profiler_ = std::make_unique<Profiler>();
  exec_ctx()->profiler = profiler_.get();
}

void TRTEngine::disable_profiling() {
  const Use use(*this, "disable_profiling");
  log.emplace_back("disable_profiling");
  profile_execution_ = false;
  profiler_.reset();
  invalidate_context();
}

void TRTEngine::set_profile_format(std::string format) {
  const Use use(*this, "set_profile_format");
  log.emplace_back("set_profile_format " + format);
  if (profiler_ == nullptr) {
    broken("set_profile_format without a profiler");
  }
  TORCH_CHECK(format == "perfetto" || format == "trex", "Invalid profile format: ", format);
  profiler_->trex = format == "trex";
}

std::string TRTEngine::get_profile_path_prefix() {
  const Use use(*this, "profile_path_prefix");
  return profile_path_prefix_;
}

void TRTEngine::set_profile_path_prefix(std::string prefix) {
  const Use use(*this, "profile_path_prefix");
  log.emplace_back("profile_path_prefix " + prefix);
  profile_path_prefix_ = std::move(prefix);
}

void TRTEngine::switch_to(std::int64_t index) {
  if (options_.profiles.size() <= 1 || index == active_profile_index_) {
    return;
  }
  TORCH_CHECK(index >= 0 && std::cmp_less(index, options_.profiles.size()), "no such profile");
  exec_ctx()->profile = index;
  active_profile_index_ = index;
  context_changed_ = true;
  captured_on_.reset();
  shape_key_ = "None";
}

void TRTEngine::set_active_profile(std::int64_t index) {
  const Use use(*this, "set_active_profile");
  log.emplace_back("set_active_profile " + std::to_string(index));
  switch_to(index);
}

void TRTEngine::set_active_profile_with_stream(std::int64_t index, const c10::cuda::CUDAStream& stream) {
  const Use use(*this, "set_active_profile_with_stream");
  log.emplace_back("set_active_profile " + std::to_string(index) + " on stream " + std::to_string(stream.stream.id()));
  ++switches_on_stream;
  switch_to(index);
}

std::int64_t TRTEngine::get_active_profile_index() {
  const Use use(*this, "_active_profile_index");
  return active_profile_index_;
}

std::int64_t TRTEngine::get_num_optimization_profiles() {
  return static_cast<std::int64_t>(options_.profiles.size());
}

bool TRTEngine::get_auto_select_profiles() {
  const Use use(*this, "_auto_select_profiles");
  return auto_select_profiles_;
}

void TRTEngine::set_auto_select_profiles(bool enabled) {
  const Use use(*this, "_auto_select_profiles");
  auto_select_profiles_ = enabled;
}

std::int64_t TRTEngine::num_execution_contexts_created() {
  const Use use(*this, "num_execution_contexts_created");
  return contexts_created_;
}

std::string TRTEngine::get_serialized_metadata() {
  return options_.serialized_metadata;
}

std::vector<std::string> TRTEngine::serialize_metadata_only() {
  std::vector<std::string> record(kFields);
  record[kAbi] = "10";
  record[kName] = options_.name;
  record[kDevice] = std::to_string(options_.device) + "%9%0%0%a GPU";
  record[kInputs] = "x%y";
  record[kMetadata] = options_.serialized_metadata;
  record[kResources] = dynamic_resources_ ? "1" : "0";
  return record;
}

at::Tensor TRTEngine::serialized_engine_tensor() {
  const Use use(*this, "serialized_engine_tensor");
  std::string bytes = plan_->name;
  return at::from_blob(bytes.data(), {static_cast<std::int64_t>(bytes.size())}, at::kByte).clone();
}

std::string TRTEngine::to_str() {
  const Use use(*this, "__str__");
  std::ostringstream out;
  out << "  Inputs: " << (context_ ? "some" : "<execution context not yet materialized>")
      << "\n  Resource Allocation Strategy: " << (dynamic_resources_ ? "Dynamic" : "Static")
      << "\n  Settings: " << runtime_settings_;
  return out.str();
}

void TRTEngine::reset_captured_graph() {
  const Use use(*this, "reset_captured_graph");
  captured_on_.reset();
}

void TRTEngine::bind_nccl_comm() {
  const Use use(*this, "bind_nccl_comm");
  log.emplace_back("bind_nccl_comm");
  bind();
}

void TRTEngine::bind() {
  ++binds;
  exec_ctx()->has_communicator = true;
  nccl_initialized_ = true;
}

bool TRTEngine::get_requires_native_multidevice() {
  const Use use(*this, "requires_native_multidevice");
  return options_.requires_native_multidevice;
}

bool TRTEngine::get_nccl_initialized() {
  const Use use(*this, "nccl_initialized");
  return nccl_initialized_;
}

std::int64_t TRTEngine::get_rank() {
  return rank;
}

std::int64_t TRTEngine::get_world_size() {
  return world_size;
}

std::int64_t TRTEngine::get_device_memory_budget() {
  const Use use(*this, "device_memory_budget");
  return budget_;
}

std::int64_t TRTEngine::get_streamable_device_memory_budget() {
  const Use use(*this, "streamable_device_memory_budget");
  return options_.streamable_weights;
}

bool TRTEngine::are_output_tensors_unowned() {
  return output_tensors_are_unowned;
}

void TRTEngine::set_output_tensors_as_unowned(bool enabled) {
  output_tensors_are_unowned = enabled;
}

void TRTEngine::set_device_memory_budget(std::int64_t budget) {
  const Use use(*this, "device_memory_budget");
  budget_ = budget;
  invalidate_context();
  if (profile_execution_) {
    profiler_ = std::make_unique<Profiler>();
    exec_ctx()->profiler = profiler_.get();
  }
  if (nccl_initialized_) {
    exec_ctx()->has_communicator = true;
  }
  context_changed_ = true;
}

void TRTEngine::use_dynamically_allocated_resources(bool dynamic) {
  const Use use(*this, "use_dynamically_allocated_resources");
  if (dynamic != dynamic_resources_) {
    dynamic_resources_ = dynamic;
    invalidate_context();
  }
}

void TRTEngine::update_runtime_settings(std::int64_t strategy) {
  const Use use(*this, "update_runtime_settings");
  if (strategy != runtime_settings_) {
    runtime_settings_ = strategy;
    invalidate_context();
    nccl_initialized_ = false;
    context_changed_ = true;
  }
}

nvinfer1::IExecutionContext* TRTEngine::exec_ctx() {
  if (context_ == nullptr) {
    if (cuda_engine != plan_->weights.lock()) {
      broken("engine '" + options_.name + "' runs on a second copy of its weights");
    }
    context_ = std::make_shared<nvinfer1::IExecutionContext>(*cuda_engine, options_.activation_bytes);
    ++contexts_created_;
  }
  return context_.get();
}

bool TRTEngine::has_exec_ctx() const noexcept {
  return context_ != nullptr;
}

void TRTEngine::invalidate_context() {
  context_.reset();
}

std::map<std::string, double> TRTEngine::profiler_totals_ms() const {
  std::map<std::string, double> totals;
  if (profiler_ != nullptr) {
    for (const auto& [name, record] : profiler_->records) {
      totals[name] = record.time;
    }
  }
  return totals;
}

void TRTEngine::run_graph_or_context(bool shape_changed) {
  const bool graphs = CUDAGRAPHS_MODE == 1;
  const bool must_capture = graphs && (!old_cudagraphs_ || shape_changed || context_changed_);
  if (!graphs || shape_changed || context_changed_) {
    captured_on_.reset();
  }
  old_cudagraphs_ = graphs;
  context_changed_ = false;
  if (!graphs) {
    return;
  }
  if (must_capture) {
    captured_on_ = contexts_created_;
    ++captures;
  }
  if (!captured_on_) {
    broken("replay without a captured graph");
  }
  if (*captured_on_ != contexts_created_) {
    broken("replay of a graph whose context is gone");
  }
  ++replays;
}

void TRTEngine::write_report() {
  const std::string stem = profile_path_prefix_ + "/" + options_.name;
  std::ofstream(stem + "_engine_execution_profile.trace") << profiler_->text(options_.name);
  std::ofstream information(stem + "_layer_information.json");
  information << "{\"Layers\": [";
  for (std::size_t i = 0; i < options_.layers.size(); ++i) {
    const std::string& name = options_.layers[i].name;
    information << (i == 0 ? "" : ", ");
    if (options_.detailed_information) {
      information << R"({"Name": ")" << name << R"(", "Outputs": [{"Name": "out of )" << name << R"("}]})";
    } else {
      information << '"' << name << '"';
    }
  }
  information << "]}";
}

std::vector<at::Tensor> TRTEngine::execute(const std::vector<at::Tensor>& inputs) {
  const Use use(*this, "execute_engine", true);
  if (options_.requires_native_multidevice && !nccl_initialized_) {
    bind();
  }
  exec_ctx();
  const std::unique_lock lock(mu_);
  if (options_.does_nothing && !profile_execution_) {
    return inputs;
  }
  executing_thread_ = std::this_thread::get_id();
  struct Leave {
    std::atomic<std::thread::id>& thread;
    ~Leave() { thread = std::thread::id(); }
  } const leave{executing_thread_};
  if (during_execute) {
    during_execute();
  }
  if (options_.run_time.count() > 0) {
    std::this_thread::sleep_for(options_.run_time);
  }
  if (options_.requires_native_multidevice && !context_->has_communicator) {
    broken("a context without communicator runs collectives");
  }

  using torch::autograd::profiler::RecordProfile;  // raises inside a profiler of torch
  const std::string stem = profile_path_prefix_ + "/" + options_.name;
  const auto phase = [&](const char* suffix) {
    return profile_execution_ ? std::make_unique<RecordProfile>(stem + suffix) : nullptr;
  };
  std::ostringstream key;
  for (const auto& input : inputs) {
    key << input.sizes();
  }
  const bool shape_changed = key.str() != shape_key_;
  shape_key_ = key.str();
  const auto fits = [&](const FakeProfile& profile) {
    return inputs.empty() || (profile.min <= inputs[0].size(0) && inputs[0].size(0) <= profile.max);
  };
  if (shape_changed && auto_select_profiles_ &&
      !fits(options_.profiles[static_cast<std::size_t>(active_profile_index_)])) {
    for (std::size_t i = 0; i < options_.profiles.size(); ++i) {
      if (fits(options_.profiles[i])) {
        switch_to(static_cast<std::int64_t>(i));
        shape_key_ = key.str();
        break;
      }
    }
  }
  { const auto trace = phase("_device_config_profile.trace"); }
  {
    const auto trace = phase("_input_profile.trace");
    TORCH_CHECK(fits(options_.profiles[static_cast<std::size_t>(context_->profile)]), "shape ", key.str(),
                " does not fit optimization profile ", context_->profile, ", which engine '", options_.name, "' is on");
  }
  std::vector<at::Tensor> outputs;
  {
    const auto trace = phase("_output_profile.trace");
    for (const auto& input : inputs) {
      outputs.push_back(input * 2);
    }
  }
  {
    const auto trace = phase("_enqueue_profile.trace");
    run_graph_or_context(shape_changed);
  }
  profiles_run.push_back(context_->profile);
  if (profile_execution_) {
    ++profiled_calls;
    if (context_->profiler == profiler_.get()) {
      for (const auto& layer : options_.layers) {
        profiler_->report(layer);
      }
    }
    write_report();
  }
  return outputs;
}

namespace {

std::vector<at::Tensor> execute_engine(std::vector<at::Tensor> inputs, c10::intrusive_ptr<TRTEngine> engine) {
  return engine->execute(inputs);
}

const auto registration =
    torch::class_<TRTEngine>("tensorrt", "Engine")
        .def(torch::init<std::vector<std::string>>())
        .def("enable_profiling", &TRTEngine::enable_profiling)
        .def("disable_profiling", &TRTEngine::disable_profiling)
        .def("set_profile_format", &TRTEngine::set_profile_format)
        .def_property("profile_path_prefix", &TRTEngine::get_profile_path_prefix, &TRTEngine::set_profile_path_prefix)
        .def("set_active_profile", &TRTEngine::set_active_profile)
        .def_property("_active_profile_index", &TRTEngine::get_active_profile_index)
        .def_property("num_optimization_profiles", &TRTEngine::get_num_optimization_profiles)
        .def_property("_auto_select_profiles", &TRTEngine::get_auto_select_profiles,
                      &TRTEngine::set_auto_select_profiles)
        .def("num_execution_contexts_created", &TRTEngine::num_execution_contexts_created)
        .def("get_serialized_metadata", &TRTEngine::get_serialized_metadata)
        .def("serialize_metadata_only", &TRTEngine::serialize_metadata_only)
        .def("serialized_engine_tensor", &TRTEngine::serialized_engine_tensor)
        .def("are_output_tensors_unowned", &TRTEngine::are_output_tensors_unowned)
        .def("set_output_tensors_as_unowned", &TRTEngine::set_output_tensors_as_unowned)
        .def_readwrite("use_pre_allocated_outputs", &TRTEngine::use_pre_allocated_outputs)
        .def_readwrite("use_output_allocator_outputs", &TRTEngine::use_output_allocator_outputs)
        .def("use_dynamically_allocated_resources", &TRTEngine::use_dynamically_allocated_resources)
        .def("update_runtime_settings",
             [](const c10::intrusive_ptr<TRTEngine>& engine, std::int64_t strategy, std::int64_t /*graphs*/,
                std::optional<std::int64_t> /*cache*/) { engine->update_runtime_settings(strategy); })
        .def("__str__", &TRTEngine::to_str)
        .def("reset_captured_graph", &TRTEngine::reset_captured_graph)
        .def("bind_nccl_comm", &TRTEngine::bind_nccl_comm)
        .def_property("requires_native_multidevice", &TRTEngine::get_requires_native_multidevice)
        .def_property("nccl_initialized", &TRTEngine::get_nccl_initialized)
        .def_property("rank", &TRTEngine::get_rank)
        .def_property("world_size", &TRTEngine::get_world_size)
        .def_property("streamable_device_memory_budget", &TRTEngine::get_streamable_device_memory_budget)
        .def_property("device_memory_budget", &TRTEngine::get_device_memory_budget,
                      &TRTEngine::set_device_memory_budget);

// For Python, which cannot make FakeOptions.
c10::intrusive_ptr<TRTEngine> fake_engine(std::string name, std::vector<std::vector<std::int64_t>> profiles,
                                          std::string metadata) {
  FakeOptions options;
  options.name = std::move(name);
  options.profiles.clear();
  for (const auto& range : profiles) {
    options.profiles.push_back({range.at(0), range.at(1)});
  }
  options.serialized_metadata = std::move(metadata);
  return c10::make_intrusive<TRTEngine>(std::move(options));
}

}  // namespace

TORCH_LIBRARY(tensorrt, m) {
  m.def("execute_engine(Tensor[] input_tensors, __torch__.torch.classes.tensorrt.Engine engine) -> Tensor[]");
  m.def("NAME_IDX", []() -> std::int64_t { return kName; });
  m.def("DEVICE_IDX", []() -> std::int64_t { return kDevice; });
  m.def("ENGINE_IDX", []() -> std::int64_t { return kPlan; });
  m.def("SERIALIZED_METADATA_IDX", []() -> std::int64_t { return kMetadata; });
  m.def("INPUT_BINDING_NAMES_IDX", []() -> std::int64_t { return kInputs; });
  m.def("fake_engine", &fake_engine);
  m.def("fake_device_memory", []() -> std::int64_t { return nvinfer1::DeviceMemory::free; });
  m.def("get_cudagraphs_mode", []() -> std::int64_t { return CUDAGRAPHS_MODE; });
  m.def("set_cudagraphs_mode", [](std::int64_t mode) { CUDAGRAPHS_MODE = static_cast<int>(mode); });
}

TORCH_LIBRARY_IMPL(tensorrt, CompositeExplicitAutograd, m) {
  m.impl("execute_engine", execute_engine);
}

}  // namespace torch_tensorrt::core::runtime
