#pragma once

#include <ATen/core/class_type.h>
#include <ATen/core/function.h>
#include <ATen/core/ivalue.h>
#include <c10/core/Stream.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <typeinfo>
#include <vector>

#include "core/runtime/profile_metadata.h"

// The only file that knows Torch-TensorRT's engine class: TorchBind names, the layout of its first two members, and
// three exported member functions that have no TorchBind name.
namespace torch_tensorrt::profiles {

class Engine;

// What an engine's serialized metadata says of it.
struct EngineIdentity {
  std::string name;
  int device = -1;                      // CUDA index; -1: unknown
  std::vector<std::string> inputs;      // its input bindings, in the order in which a call gives them
  std::vector<ProfileRecord> profiles;  // empty where it was compiled without names, or their record cannot be read
  std::string profiles_problem;         // why it cannot; see ProfileMetadata
  [[nodiscard]] std::vector<std::string> profile_names() const;
};

// What the class's constructor takes, with the plan as bytes.
struct EngineRecord {
  c10::List<std::string> fields;
  std::int64_t plan_bytes = 0;
};

// How an engine gives out its outputs.
struct OutputModes {
  bool pre_allocated = false;
  bool from_allocator = false;
  bool unowned = false;
  bool operator==(const OutputModes&) const = default;
};

// `tensorrt.Engine` as this process has it. Made once, when the library is activated, and kept for good.
class EngineClass {
 public:
  // Throws with what was found and what to do where the class or its operator is missing or of another make.
  static std::unique_ptr<EngineClass> resolve();

  // Whether the value is an object of this class, as far as TorchBind knows.
  [[nodiscard]] bool is_engine(const c10::IValue& value) const;

  // The methods by which whoever holds an engine profiles that one, sets its profile, or what no getter tells.
  enum class OwnMethod : std::uint8_t {
    kEnableProfiling,
    kDisableProfiling,
    kSetProfileFormat,
    kSetActiveProfile,
    kUpdateRuntimeSettings,
    kUseDynamicallyAllocatedResources,
  };
  // Stands in for such a method. `arguments` are what it is given behind the engine; `call_through` is what the class
  // does.
  using OwnMethodHandler = void (*)(OwnMethod method, const Engine& engine, const std::vector<c10::IValue>& arguments,
                                    const std::function<void()>& call_through);
  // From now on whoever looks these methods up on the class, as Python does at each call and TorchScript when it
  // compiles one, gets `handler`. Not for two threads at once.
  void hand_own_methods_to(OwnMethodHandler handler);
  // The class is as it was. Who looked up before goes on holding our methods, which then only call through.
  void give_own_methods_back();

 private:
  friend class Engine;

  // A method of ours under the name and schema of the class's own.
  struct OwnMethodEntry {
    torch::jit::Function* original;
    std::unique_ptr<torch::jit::Function> replacement;
  };
  void replace_own_method(OwnMethod method, torch::jit::Function* original);

  // Exported member functions, called as plain functions whose first argument is `this`. Null where not exported.
  struct NativeMembers {
    bool (*has_context)(const void*) = nullptr;
    void* (*context)(void*) = nullptr;
    void (*set_active_profile_on)(void*, std::int64_t, const c10::Stream*) = nullptr;
    const int* cudagraphs_mode = nullptr;  // a variable
  };

  struct Property {
    torch::jit::Function* get = nullptr;
    torch::jit::Function* set = nullptr;
  };

  explicit EngineClass(c10::ClassTypePtr type) : type_(std::move(type)) {}
  [[nodiscard]] const NativeMembers& native(const std::type_info& type) const {
    const NativeMembers* found = native_.load(std::memory_order_acquire);
    return found != nullptr ? *found : find_native(type);
  }
  const NativeMembers& find_native(const std::type_info& type) const;

  c10::ClassTypePtr type_;
  std::atomic<OwnMethodHandler> own_method_handler_{nullptr};
  std::vector<OwnMethodEntry> own_methods_;  // of the first handing over on

  torch::jit::Function* enable_profiling_ = nullptr;
  torch::jit::Function* disable_profiling_ = nullptr;
  torch::jit::Function* set_profile_format_ = nullptr;
  torch::jit::Function* set_active_profile_ = nullptr;
  torch::jit::Function* num_execution_contexts_created_ = nullptr;
  torch::jit::Function* serialize_metadata_only_ = nullptr;
  torch::jit::Function* construct_ = nullptr;
  torch::jit::Function* reset_captured_graph_ = nullptr;  // from here on: null where the class has none
  torch::jit::Function* serialized_engine_tensor_ = nullptr;
  torch::jit::Function* update_runtime_settings_ = nullptr;
  torch::jit::Function* use_dynamically_allocated_resources_ = nullptr;
  torch::jit::Function* are_output_tensors_unowned_ = nullptr;
  torch::jit::Function* set_output_tensors_as_unowned_ = nullptr;
  torch::jit::Function* bind_nccl_comm_ = nullptr;
  Property profile_path_prefix_;
  Property active_profile_index_;
  Property num_optimization_profiles_;
  Property auto_select_profiles_;  // from here on: null where the class has none
  Property requires_native_multidevice_;
  Property nccl_initialized_;
  Property rank_;
  Property world_size_;
  Property device_memory_budget_;
  Property streamable_device_memory_budget_;
  Property use_pre_allocated_outputs_;
  Property use_output_allocator_outputs_;
  std::int64_t name_index_ = 0;
  std::int64_t device_index_ = 0;
  std::int64_t plan_index_ = 0;
  std::int64_t inputs_index_ = 0;
  std::int64_t metadata_index_ = 0;

  // Found at the first engine: the class itself does not tell where it was loaded from.
  mutable std::mutex native_mutex_;
  mutable NativeMembers found_native_;
  mutable std::atomic<const NativeMembers*> native_{nullptr};
};

// One engine object, held alive. Every call must be made under the engine's lock (EngineState::mutex).
class Engine {
 public:
  Engine(const EngineClass& engine_class, const c10::IValue& engine);

  // Identifies the engine as long as it lives.
  [[nodiscard]] const void* address() const noexcept { return holder_; }
  // Whether the object really is what this file takes it for. Never reads through a pointer it has not checked.
  [[nodiscard]] bool has_expected_layout() const;
  // Calls `notice` when the engine is being destroyed: from its destructor, under whatever locks the caller holds.
  void on_destruction(std::function<void()> notice) const;

  [[nodiscard]] EngineIdentity identity() const;
  [[nodiscard]] const c10::IValue& value() const noexcept { return engine_; }

  [[nodiscard]] EngineRecord record() const;
  // Another engine object, with all of its own: the weights are on the device twice then.
  [[nodiscard]] Engine made_from(const EngineRecord& record) const;
  // Takes the ICudaEngine of another object of the same plan for its own, which is freed, and keeps that one's runtime
  // alive. Only before it has made a context.
  void share_cuda_engine_of(const Engine& other) const;
  // Bytes of weights that may be streamed from the host; 0 for an engine that was not built for it.
  [[nodiscard]] std::int64_t streamable_weights() const;

  // Its plain members, which calls only read: the one query that needs no lock.
  [[nodiscard]] OutputModes output_modes() const;
  void set_output_modes(const OutputModes& modes) const;
  // What the methods of these names take.
  void update_runtime_settings(const std::vector<c10::IValue>& arguments) const;
  void use_dynamically_allocated_resources(const std::vector<c10::IValue>& arguments) const;

  void enable_profiling() const;
  void disable_profiling() const;
  void set_profile_format(const std::string& format) const;
  [[nodiscard]] std::string profile_path_prefix() const;
  void set_profile_path_prefix(const std::string& prefix) const;

  [[nodiscard]] std::int64_t num_optimization_profiles() const;
  [[nodiscard]] std::int64_t active_profile_index() const;
  // Torch-TensorRT's own choice by shape, at each call.
  [[nodiscard]] bool auto_select_profiles() const;
  void set_auto_select_profiles(bool enabled) const;
  // On `stream` without host synchronisation; with no stream, or no way to name one, on the current stream with it.
  void set_active_profile(std::int64_t index, const c10::Stream* stream) const;

  // Whether the exported members were found. Without them nobody can tell whether there is a context: has_context() is
  // true and make_context() does nothing.
  [[nodiscard]] bool has_native_members() const;
  [[nodiscard]] bool has_context() const { return native_.has_context == nullptr || native_.has_context(holder_); }
  void make_context() const;
  [[nodiscard]] std::int64_t contexts_created() const;
  // Whether Torch-TensorRT is set to capture engines into CUDA graphs of its own ("subgraph" mode).
  [[nodiscard]] bool captures_subgraphs() const {
    return native_.cudagraphs_mode != nullptr ? *native_.cudagraphs_mode == kSubgraphMode : asks_for_subgraphs();
  }
  void reset_captured_graph() const;
  // Makes Torch-TensorRT capture its CUDA graph anew at the next call. Drops the context.
  void forget_captured_graph() const;

  [[nodiscard]] bool requires_native_multidevice() const;
  [[nodiscard]] bool nccl_initialized() const;
  void bind_nccl_comm() const;
  [[nodiscard]] std::int64_t rank() const;
  [[nodiscard]] std::int64_t world_size() const;

 private:
  static constexpr int kSubgraphMode = 1;  // torch_tensorrt.runtime.set_cudagraphs_mode(True)
  [[nodiscard]] static bool asks_for_subgraphs();
  c10::IValue call(torch::jit::Function* function, c10::ArrayRef<c10::IValue> arguments = {}) const;

  const EngineClass& class_;
  c10::IValue engine_;
  torch::CustomClassHolder* holder_;
  const EngineClass::NativeMembers& native_;
};

}  // namespace torch_tensorrt::profiles
