#pragma once

#include <ATen/ATen.h>
#include <torch/custom_class.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

// A stand-in for Torch-TensorRT 2.14's engine that holds callers to what the real one needs: it aborts the process,
// with a message, where a real engine would crash, race, or silently compute on the wrong profile. It has the real
// one's class name, so it must never be loaded beside Torch-TensorRT.
//
// Built three times: as it is; FAKE_WITH_INSERTED_MEMBER, for a class of another layout; FAKE_WITHOUT_EXPORTED_MEMBERS,
// for a Torch-TensorRT that exports none of its member functions.

#if defined(FAKE_WITHOUT_EXPORTED_MEMBERS)
#define FAKE_MEMBER __attribute__((visibility("hidden")))
#else
#define FAKE_MEMBER
#endif

namespace c10::cuda {
class CUDAStream;
}

namespace nvinfer1 {

struct IRuntime {
  virtual ~IRuntime();
  static std::atomic<int> alive;
  IRuntime() { ++alive; }
  IRuntime(const IRuntime&) = delete;
  IRuntime& operator=(const IRuntime&) = delete;
};

// The device's memory, in bytes. Throws where there is too little.
struct DeviceMemory {
  static std::atomic<std::int64_t> free;
  explicit DeviceMemory(std::int64_t bytes);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

 private:
  std::int64_t bytes_;
};

// The weights. Needs its runtime to be there when it dies, and no context.
struct ICudaEngine {
  virtual ~ICudaEngine();
  static std::atomic<int> alive;
  ICudaEngine(const std::shared_ptr<IRuntime>& runtime, std::int64_t weight_bytes);
  ICudaEngine(const ICudaEngine&) = delete;
  ICudaEngine& operator=(const ICudaEngine&) = delete;

  std::atomic<int> contexts{0};

 private:
  DeviceMemory weights_;
  std::weak_ptr<IRuntime> runtime_;
};

struct IExecutionContext {
  IExecutionContext(ICudaEngine& of, std::int64_t activation_bytes);
  ~IExecutionContext();
  IExecutionContext(const IExecutionContext&) = delete;
  IExecutionContext& operator=(const IExecutionContext&) = delete;

  ICudaEngine& cuda_engine;
  std::int64_t profile = 0;
  bool has_communicator = false;
  void* profiler = nullptr;

 private:
  DeviceMemory activations_;
};

}  // namespace nvinfer1

namespace torch_tensorrt::core::runtime {

struct FakeProfile {
  std::int64_t min = 1;
  std::int64_t max = 1'000'000;
};

struct FakeLayer {
  std::string name;
  float ms = 0;
};

struct FakeOptions {
  std::string name = "engine";
  std::vector<FakeProfile> profiles = {{}};  // ranges of the first input's first extent
  std::vector<FakeLayer> layers = {{"conv", 0.5F}, {"relu", 0.25F}};
  bool detailed_information = false;  // an object per layer in the layer information, instead of its name
  std::string serialized_metadata = {};
  std::int64_t device = 0;
  bool requires_native_multidevice = false;
  std::int64_t weight_bytes = 1000;
  std::int64_t activation_bytes = 10;  // of each context
  std::int64_t streamable_weights = 0;
  std::chrono::microseconds run_time{0};
  bool does_nothing = false;  // a call costs nothing: for measuring what comes before and after it
};

class Profiler;
struct Plan;

class TRTEngine : public torch::CustomClassHolder {
 public:
  explicit TRTEngine(FakeOptions options);
  // From what serialize_metadata_only() and serialized_engine_tensor() of a live engine say. It may only run on the
  // ICudaEngine of that one.
  explicit TRTEngine(std::vector<std::string> record);
  ~TRTEngine() override;

  // The two members whose place is part of the contract.
  std::shared_ptr<nvinfer1::IRuntime> rt;
#if defined(FAKE_WITH_INSERTED_MEMBER)
  std::string inserted = "a member that 2.14 does not have";
#endif
  std::shared_ptr<nvinfer1::ICudaEngine> cuda_engine;

  // What TorchBind has.
  void enable_profiling();
  void disable_profiling();
  void set_profile_format(std::string format);
  std::string get_profile_path_prefix();
  void set_profile_path_prefix(std::string prefix);
  void set_active_profile(std::int64_t index);
  std::int64_t get_active_profile_index();
  std::int64_t get_num_optimization_profiles();  // what is settled may be asked at any time
  bool get_auto_select_profiles();
  void set_auto_select_profiles(bool enabled);
  std::int64_t num_execution_contexts_created();
  std::string get_serialized_metadata();
  std::vector<std::string> serialize_metadata_only();  // so may this
  at::Tensor serialized_engine_tensor();
  std::string to_str();
  void reset_captured_graph();
  void bind_nccl_comm();
  bool get_requires_native_multidevice();
  bool get_nccl_initialized();
  std::int64_t get_rank();
  std::int64_t get_world_size();
  std::int64_t get_device_memory_budget();
  void set_device_memory_budget(std::int64_t budget);
  std::int64_t get_streamable_device_memory_budget();
  void use_dynamically_allocated_resources(bool dynamic);
  void update_runtime_settings(std::int64_t strategy);

  // Plain members, which calls only read.
  bool use_pre_allocated_outputs = false;
  bool use_output_allocator_outputs = false;
  bool output_tensors_are_unowned = false;
  bool are_output_tensors_unowned();
  void set_output_tensors_as_unowned(bool enabled);

  // What it exports without a TorchBind name.
  FAKE_MEMBER nvinfer1::IExecutionContext* exec_ctx();
  [[nodiscard]] FAKE_MEMBER bool has_exec_ctx() const noexcept;
  FAKE_MEMBER void set_active_profile_with_stream(std::int64_t index, const c10::cuda::CUDAStream& stream);

  std::vector<at::Tensor> execute(const std::vector<at::Tensor>& inputs);

  // For tests to look at, while no call is under way.
  std::vector<std::string> log;  // calls that change something, in order
  std::function<void()> during_execute;
  std::vector<std::int64_t> profiles_run;  // the context's real profile, per call
  std::int64_t captures = 0;
  std::int64_t replays = 0;
  std::int64_t binds = 0;
  std::int64_t switches_on_stream = 0;
  std::int64_t profiled_calls = 0;
  std::int64_t world_size = -1;
  std::int64_t rank = -1;
  [[nodiscard]] std::int64_t runtime_settings() const { return runtime_settings_; }
  [[nodiscard]] bool has_dynamic_resources() const { return dynamic_resources_; }
  [[nodiscard]] bool is_profiling() const { return profile_execution_; }
  [[nodiscard]] bool has_profiler() const { return context_ != nullptr && context_->profiler != nullptr; }
  // What the profiler would log: time per layer since it was made.
  [[nodiscard]] std::map<std::string, double> profiler_totals_ms() const;

 private:
  class Use;

  explicit TRTEngine(const std::shared_ptr<Plan>& plan);
  void bind();
  void invalidate_context();
  void switch_to(std::int64_t index);
  void run_graph_or_context(bool shape_changed);
  void write_report();

  std::shared_ptr<Plan> plan_;
  const FakeOptions& options_;  // the plan's
  std::string profile_path_prefix_ = "/tmp";
  std::int64_t active_profile_index_ = 0;
  bool auto_select_profiles_ = false;
  bool profile_execution_ = false;
  bool nccl_initialized_ = false;
  bool dynamic_resources_ = false;
  std::int64_t runtime_settings_ = 0;
  std::int64_t budget_ = 0;
  std::unique_ptr<Profiler> profiler_;
  std::shared_ptr<nvinfer1::IExecutionContext> context_;
  std::int64_t contexts_created_ = 0;
  std::string shape_key_ = "None";

  bool context_changed_ = false;
  bool old_cudagraphs_ = false;
  std::optional<std::int64_t> captured_on_;  // number of the context that the graph was captured with

  std::mutex mu_;
  std::atomic<int> methods_{0};
  std::atomic<int> executions_{0};
  mutable std::atomic<std::thread::id> executing_thread_{};
};

// Number of live engines.
int live_engines();

}  // namespace torch_tensorrt::core::runtime
