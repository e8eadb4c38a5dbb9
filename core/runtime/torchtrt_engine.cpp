#include "core/runtime/torchtrt_engine.h"

#include <ATen/core/builtin_function.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <torch/custom_class.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string_view>

namespace torch_tensorrt::profiles {
namespace {

constexpr const char* kClassName = "__torch__.torch.classes.tensorrt.Engine";
constexpr std::string_view kEngineType = "N14torch_tensorrt4core7runtime9TRTEngineE";
constexpr std::string_view kRuntimeHolder = "St15_Sp_counted_ptrIPN8nvinfer18IRuntimeELN9__gnu_cxx12_Lock_policyE2EE";
constexpr std::string_view kCudaEngineHolder =
    "St15_Sp_counted_ptrIPN8nvinfer111ICudaEngineELN9__gnu_cxx12_Lock_policyE2EE";
constexpr const char* kHasContext = "_ZNK14torch_tensorrt4core7runtime9TRTEngine12has_exec_ctxEv";
constexpr const char* kContext = "_ZN14torch_tensorrt4core7runtime9TRTEngine8exec_ctxEv";
constexpr const char* kSetActiveProfileOn =
    "_ZN14torch_tensorrt4core7runtime9TRTEngine30set_active_profile_with_streamElRKN3c104cuda10CUDAStreamE";
constexpr const char* kCudagraphsMode = "_ZN14torch_tensorrt4core7runtime15CUDAGRAPHS_MODEE";
constexpr char kBindingDelimiter = '%';
constexpr const char* kNextStep =
    " This library is written for Torch-TensorRT 2.14: install torch-tensorrt-rtx or torch-tensorrt 2.14.";

// The leading members of Torch-TensorRT's class; nothing behind them is ever read.
struct EngineLayout : torch::CustomClassHolder {
  std::shared_ptr<void> runtime;
  std::shared_ptr<void> cuda_engine;
};

// Deletes nothing: tells that an engine is dying, then lets go of its runtime.
struct EndOfLife {
  std::shared_ptr<void> original;
  std::function<void()> notice;

  void operator()(void* /*runtime*/) {
    notice();
    original.reset();
  }
};

struct SharedPointerLayout {
  void* object;
  const void* control_block;
};

// Reads memory that may not be there: the kernel answers EFAULT where a load would crash.
class CheckedReader {
 public:
  CheckedReader() : ok_(::pipe2(ends_.data(), O_CLOEXEC | O_NONBLOCK) == 0) {}
  ~CheckedReader() {
    if (ok_) {
      ::close(ends_[0]);
      ::close(ends_[1]);
    }
  }
  CheckedReader(const CheckedReader&) = delete;
  CheckedReader& operator=(const CheckedReader&) = delete;
  CheckedReader(CheckedReader&&) = delete;
  CheckedReader& operator=(CheckedReader&&) = delete;

  bool read(std::uintptr_t from, void* to, std::size_t size) const {
    // A bare system call: a sanitizer's write() would look at the memory first.
    return ok_ && ::syscall(SYS_write, ends_[1], from, size) == static_cast<std::int64_t>(size) &&
           ::read(ends_[0], to, size) == static_cast<ssize_t>(size);
  }

  // The dynamic type's mangled name is `expected`. `object` may be any address.
  [[nodiscard]] bool is_of_type(const void* object, std::string_view expected) const {
    // The Itanium C++ ABI: an object begins with the address of its virtual table, the pointer before that table is to
    // its type_info, and a type_info's second pointer is to the name.
    std::uintptr_t table = 0;
    std::uintptr_t type = 0;
    std::uintptr_t name = 0;
    std::string found(expected.size() + 1, '\0');
    const auto address = reinterpret_cast<std::uintptr_t>(object);
    return address != 0 && address % alignof(void*) == 0 && read(address, &table, sizeof(table)) &&
           read(table - sizeof(void*), &type, sizeof(type)) && read(type + sizeof(void*), &name, sizeof(name)) &&
           read(name, found.data(), found.size()) && found.back() == '\0' && found.starts_with(expected);
  }

 private:
  std::array<int, 2> ends_{-1, -1};
  bool ok_;  // after what it is made from
};

// Puts one method of the class in the place of another, where that is there: somebody else's stays. The class has no
// setter for this. unsafeRemoveMethod and addMethod would change the methods' order, and there would be a moment in
// which another thread finds none.
void exchange_method(const c10::ClassType& type, const torch::jit::Function* there, torch::jit::Function* instead) {
  for (torch::jit::Function* const& method : type.methods()) {
    if (method == there) {
      // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): the list itself is not const
      std::atomic_ref(const_cast<torch::jit::Function*&>(method)).store(instead, std::memory_order_release);
      return;
    }
  }
}

std::int64_t constant(const char* operator_name) {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(operator_name, "");
  torch::jit::Stack stack;
  op.callBoxed(stack);
  return torch::jit::pop(stack).toInt();
}

std::vector<std::string> split(const std::string& text, char delimiter) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, delimiter);) {
    parts.push_back(part);
  }
  return parts;
}

}  // namespace

std::vector<std::string> EngineIdentity::profile_names() const {
  std::vector<std::string> names(profiles.size());
  std::ranges::transform(profiles, names.begin(), &ProfileRecord::name);
  return names;
}

std::unique_ptr<EngineClass> EngineClass::resolve() {
  const c10::ClassTypePtr type = torch::getCustomClass(kClassName);
  TORCH_CHECK(
      type != nullptr, "torch-tensorrt-profiles: the class ", kClassName,
      " is not registered, so Torch-TensorRT's C++ runtime is not in this process. Load it first "
      "(import torch_tensorrt, or link libtorchtrt_runtime). A Python-only build of Torch-TensorRT "
      "(torch_tensorrt.ENABLED_FEATURES.torch_tensorrt_runtime is False) has no C++ runtime and cannot be used.");
  const auto op = c10::Dispatcher::singleton().findSchema({"tensorrt::execute_engine", ""});
  TORCH_CHECK(op.has_value() && op->hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd),
              "torch-tensorrt-profiles: the class ", kClassName,
              " is registered, but the operator "
              "tensorrt::execute_engine ",
              op.has_value() ? "has no CompositeExplicitAutograd kernel." : "is not.", kNextStep);

  auto found =
      std::unique_ptr<EngineClass>(new EngineClass(type));  // NOLINT(cppcoreguidelines-owning-memory): private ctor
  const auto method = [&type](const char* name, bool required = true) {
    torch::jit::Function* function = type->findMethod(name);
    TORCH_CHECK(function != nullptr || !required, "torch-tensorrt-profiles: ", kClassName, " has no method ", name, ".",
                kNextStep);
    return function;
  };
  const auto property = [&type](const char* name, bool required = true) {
    const auto entry = type->getProperty(name);
    TORCH_CHECK(entry.has_value() || !required, "torch-tensorrt-profiles: ", kClassName, " has no property ", name, ".",
                kNextStep);
    return entry ? Property{entry->getter, entry->setter} : Property{};
  };
  found->enable_profiling_ = method("enable_profiling");
  found->disable_profiling_ = method("disable_profiling");
  found->set_profile_format_ = method("set_profile_format");
  found->set_active_profile_ = method("set_active_profile");
  found->num_execution_contexts_created_ = method("num_execution_contexts_created");
  found->serialize_metadata_only_ = method("serialize_metadata_only");
  found->construct_ = method("__init__");
  found->reset_captured_graph_ = method("reset_captured_graph", false);
  found->serialized_engine_tensor_ = method("serialized_engine_tensor", false);
  found->update_runtime_settings_ = method("update_runtime_settings", false);
  found->use_dynamically_allocated_resources_ = method("use_dynamically_allocated_resources", false);
  found->are_output_tensors_unowned_ = method("are_output_tensors_unowned", false);
  found->set_output_tensors_as_unowned_ = method("set_output_tensors_as_unowned", false);
  found->bind_nccl_comm_ = method("bind_nccl_comm", false);
  found->profile_path_prefix_ = property("profile_path_prefix");
  found->active_profile_index_ = property("_active_profile_index");
  found->num_optimization_profiles_ = property("num_optimization_profiles");
  found->auto_select_profiles_ = property("_auto_select_profiles", false);
  found->requires_native_multidevice_ = property("requires_native_multidevice", false);
  found->nccl_initialized_ = property("nccl_initialized", false);
  found->rank_ = property("rank", false);
  found->world_size_ = property("world_size", false);
  found->device_memory_budget_ = property("device_memory_budget", false);
  found->streamable_device_memory_budget_ = property("streamable_device_memory_budget", false);
  found->use_pre_allocated_outputs_ = property("use_pre_allocated_outputs", false);
  found->use_output_allocator_outputs_ = property("use_output_allocator_outputs", false);
  found->name_index_ = constant("tensorrt::NAME_IDX");
  found->device_index_ = constant("tensorrt::DEVICE_IDX");
  found->plan_index_ = constant("tensorrt::ENGINE_IDX");
  found->inputs_index_ = constant("tensorrt::INPUT_BINDING_NAMES_IDX");
  found->metadata_index_ = constant("tensorrt::SERIALIZED_METADATA_IDX");
  return found;
}

bool EngineClass::is_engine(const c10::IValue& value) const {
  return value.isObject() && value.toObjectRef().type()->equals(*type_);
}

void EngineClass::replace_own_method(OwnMethod method, torch::jit::Function* original) {
  auto call = [this, method, original](torch::jit::Stack& stack) {
    const OwnMethodHandler handler = own_method_handler_.load(std::memory_order_acquire);
    if (handler == nullptr) {
      original->run(stack);
      return;
    }
    // TorchScript's stack goes on below the arguments.
    const std::size_t count = original->num_inputs();
    const Engine engine(*this, torch::jit::peek(stack, 0, count));
    const std::vector<c10::IValue> arguments(stack.end() - static_cast<std::ptrdiff_t>(count) + 1, stack.end());
    handler(method, engine, arguments, [original, &stack] { original->run(stack); });
  };
  own_methods_.push_back({original, std::make_unique<torch::jit::BuiltinOpFunction>(
                                        original->qualname(), original->getSchema(), std::move(call),
                                        std::string(original->doc_string()))});
}

void EngineClass::hand_own_methods_to(OwnMethodHandler handler) {
  if (own_methods_.empty()) {
    replace_own_method(OwnMethod::kEnableProfiling, enable_profiling_);
    replace_own_method(OwnMethod::kDisableProfiling, disable_profiling_);
    replace_own_method(OwnMethod::kSetProfileFormat, set_profile_format_);
    replace_own_method(OwnMethod::kSetActiveProfile, set_active_profile_);
    for (const auto& [method, original] :
         {std::pair(OwnMethod::kUpdateRuntimeSettings, update_runtime_settings_),
          std::pair(OwnMethod::kUseDynamicallyAllocatedResources, use_dynamically_allocated_resources_)}) {
      if (original != nullptr) {
        replace_own_method(method, original);
      }
    }
  }
  own_method_handler_.store(handler, std::memory_order_release);
  for (const OwnMethodEntry& entry : own_methods_) {
    exchange_method(*type_, entry.original, entry.replacement.get());
  }
}

void EngineClass::give_own_methods_back() {
  for (const OwnMethodEntry& entry : own_methods_) {
    exchange_method(*type_, entry.replacement.get(), entry.original);
  }
  own_method_handler_.store(nullptr, std::memory_order_release);
}

const EngineClass::NativeMembers& EngineClass::find_native(const std::type_info& type) const {
  const std::scoped_lock lock(native_mutex_);
  if (native_.load(std::memory_order_relaxed) == nullptr) {
    // The library that holds the class was loaded locally, so its symbols are found through its own handle only. The
    // handle stays open: what is found must stay where it is.
    Dl_info where{};
    void* const library = ::dladdr(static_cast<const void*>(&type), &where) == 0
                              ? nullptr
                              : ::dlopen(where.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    if (library != nullptr) {
      NativeMembers found;
      found.has_context = reinterpret_cast<bool (*)(const void*)>(::dlsym(library, kHasContext));
      found.context = reinterpret_cast<void* (*)(void*)>(::dlsym(library, kContext));
      found.set_active_profile_on =
          reinterpret_cast<void (*)(void*, std::int64_t, const c10::Stream*)>(::dlsym(library, kSetActiveProfileOn));
      found.cudagraphs_mode = static_cast<const int*>(::dlsym(library, kCudagraphsMode));
      if (found.has_context != nullptr && found.context != nullptr && found.set_active_profile_on != nullptr &&
          found.cudagraphs_mode != nullptr) {
        found_native_ = found;  // all of them or none
      }
    }
    native_.store(&found_native_, std::memory_order_release);
  }
  return found_native_;
}

Engine::Engine(const EngineClass& engine_class, const c10::IValue& engine)
    : class_(engine_class),
      engine_(engine),
      // No intrusive_ptr on the way, it would cost two atomic operations; engine_ keeps the holder alive.
      holder_(
          static_cast<torch::CustomClassHolder*>(const_cast<void*>(  // NOLINT(cppcoreguidelines-pro-type-const-cast)
              engine.toObjectRef().getSlot(0).internalToPointer()))),
      native_(class_.native(typeid(*holder_))) {}

bool Engine::has_expected_layout() const {
  const CheckedReader reader;
  std::array<SharedPointerLayout, 2> members{};
  const auto first = reinterpret_cast<std::uintptr_t>(holder_) + sizeof(torch::CustomClassHolder);
  return reader.is_of_type(holder_, kEngineType) && reader.read(first, members.data(), sizeof(members)) &&
         reader.is_of_type(members[0].control_block, kRuntimeHolder) &&
         reader.is_of_type(members[1].control_block, kCudaEngineHolder);
}

void Engine::on_destruction(std::function<void()> notice) const {
  // The runtime is the member that the engine's destructor releases last, and nothing reads it once the engine is
  // built.
  auto& runtime = reinterpret_cast<EngineLayout*>(holder_)->runtime;
  void* const raw = runtime.get();
  runtime = std::shared_ptr<void>(raw, EndOfLife{std::move(runtime), std::move(notice)});
}

EngineRecord Engine::record() const {
  TORCH_CHECK(class_.serialized_engine_tensor_ != nullptr, "torch-tensorrt-profiles: ", kClassName,
              " has no method serialized_engine_tensor.", kNextStep);
  const auto fields = call(class_.serialize_metadata_only_).to<c10::List<std::string>>();  // a handle
  const at::Tensor plan = call(class_.serialized_engine_tensor_).toTensor();
  fields.set(static_cast<std::size_t>(class_.plan_index_),
             std::string(static_cast<const char*>(plan.const_data_ptr()), plan.nbytes()));
  return {fields, static_cast<std::int64_t>(plan.nbytes())};
}

Engine Engine::made_from(const EngineRecord& record) const {
  const auto type = engine_.toObjectRef().type();
  const c10::IValue made = c10::ivalue::Object::create(c10::StrongTypePtr(nullptr, type), 1);
  torch::jit::Stack stack{made, record.fields};
  class_.construct_->run(stack);
  return {class_, made};
}

void Engine::share_cuda_engine_of(const Engine& other) const {
  auto* const mine = reinterpret_cast<EngineLayout*>(holder_);
  const auto* const others = reinterpret_cast<const EngineLayout*>(other.holder_);
  const auto* const notice = std::get_deleter<EndOfLife>(others->runtime);
  mine->cuda_engine = others->cuda_engine;  // its own dies first, as TensorRT wants it
  mine->runtime = notice != nullptr ? notice->original : others->runtime;
}

std::int64_t Engine::streamable_weights() const {
  auto* const get = class_.streamable_device_memory_budget_.get;
  return get != nullptr ? call(get).toInt() : 0;
}

OutputModes Engine::output_modes() const {
  OutputModes modes;
  if (class_.use_pre_allocated_outputs_.get != nullptr) {
    modes.pre_allocated = call(class_.use_pre_allocated_outputs_.get).toBool();
  }
  if (class_.use_output_allocator_outputs_.get != nullptr) {
    modes.from_allocator = call(class_.use_output_allocator_outputs_.get).toBool();
  }
  if (class_.are_output_tensors_unowned_ != nullptr) {
    modes.unowned = call(class_.are_output_tensors_unowned_).toBool();
  }
  return modes;
}

void Engine::set_output_modes(const OutputModes& modes) const {
  if (class_.use_pre_allocated_outputs_.set != nullptr) {
    call(class_.use_pre_allocated_outputs_.set, {modes.pre_allocated});
  }
  if (class_.use_output_allocator_outputs_.set != nullptr) {
    call(class_.use_output_allocator_outputs_.set, {modes.from_allocator});
  }
  if (class_.set_output_tensors_as_unowned_ != nullptr) {
    call(class_.set_output_tensors_as_unowned_, {modes.unowned});
  }
}

void Engine::update_runtime_settings(const std::vector<c10::IValue>& arguments) const {
  call(class_.update_runtime_settings_, arguments);
}

void Engine::use_dynamically_allocated_resources(const std::vector<c10::IValue>& arguments) const {
  call(class_.use_dynamically_allocated_resources_, arguments);
}

c10::IValue Engine::call(torch::jit::Function* function, c10::ArrayRef<c10::IValue> arguments) const {
  torch::jit::Stack stack;
  stack.reserve(1 + arguments.size());
  stack.push_back(engine_);
  stack.insert(stack.end(), arguments.begin(), arguments.end());
  function->run(stack);
  return stack.empty() ? c10::IValue() : torch::jit::pop(stack);
}

EngineIdentity Engine::identity() const {
  const c10::IValue record = call(class_.serialize_metadata_only_);
  const auto field = [fields = record.toListRef()](std::int64_t index) {
    const auto at = static_cast<std::size_t>(index);
    return at < fields.size() ? fields[at].toStringRef() : std::string();
  };
  EngineIdentity identity;
  identity.name = field(class_.name_index_);
  const std::string device = field(class_.device_index_);  // its fields are separated; the first is the CUDA index
  if (!device.empty() && device.front() >= '0' && device.front() <= '9') {
    identity.device = std::atoi(device.c_str());  // NOLINT(bugprone-unchecked-string-to-number-conversion,cert-err34-c)
  }
  identity.inputs = split(field(class_.inputs_index_), kBindingDelimiter);
  auto [profiles, problem] = profiles_in(field(class_.metadata_index_));
  identity.profiles = std::move(profiles);
  identity.profiles_problem = std::move(problem);
  return identity;
}

void Engine::enable_profiling() const {
  call(class_.enable_profiling_);
}

void Engine::disable_profiling() const {
  call(class_.disable_profiling_);
}

void Engine::set_profile_format(const std::string& format) const {
  call(class_.set_profile_format_, {format});
}

std::string Engine::profile_path_prefix() const {
  return call(class_.profile_path_prefix_.get).toStringRef();
}

void Engine::set_profile_path_prefix(const std::string& prefix) const {
  call(class_.profile_path_prefix_.set, {prefix});
}

std::int64_t Engine::num_optimization_profiles() const {
  return call(class_.num_optimization_profiles_.get).toInt();
}

std::int64_t Engine::active_profile_index() const {
  return call(class_.active_profile_index_.get).toInt();
}

bool Engine::auto_select_profiles() const {
  return class_.auto_select_profiles_.get != nullptr && call(class_.auto_select_profiles_.get).toBool();
}

void Engine::set_auto_select_profiles(bool enabled) const {
  call(class_.auto_select_profiles_.set, {enabled});
}

void Engine::set_active_profile(std::int64_t index, const c10::Stream* stream) const {
  if (stream != nullptr && native_.set_active_profile_on != nullptr) {
    // A c10::cuda::CUDAStream is one c10::Stream and nothing else, so a reference to the one serves for the other.
    native_.set_active_profile_on(holder_, index, stream);
  } else {
    call(class_.set_active_profile_, {index});
  }
}

void Engine::make_context() const {
  if (native_.context != nullptr) {
    native_.context(holder_);
  }
}

bool Engine::has_native_members() const {
  return native_.context != nullptr;
}

std::int64_t Engine::contexts_created() const {
  return call(class_.num_execution_contexts_created_).toInt();
}

bool Engine::asks_for_subgraphs() {
  return constant("tensorrt::get_cudagraphs_mode") == kSubgraphMode;
}

void Engine::reset_captured_graph() const {
  if (class_.reset_captured_graph_ != nullptr) {
    call(class_.reset_captured_graph_);
  }
}

void Engine::forget_captured_graph() const {
  // Setting the budget, even to what it is, is the one door to Torch-TensorRT's "the context changed" for an engine
  // with a single profile; reset_captured_graph alone leaves it replaying a graph that is not there.
  if (class_.device_memory_budget_.set != nullptr) {
    call(class_.device_memory_budget_.set, {call(class_.device_memory_budget_.get)});
  }
}

bool Engine::requires_native_multidevice() const {
  return class_.bind_nccl_comm_ != nullptr && class_.requires_native_multidevice_.get != nullptr &&
         call(class_.requires_native_multidevice_.get).toBool();
}

bool Engine::nccl_initialized() const {
  return class_.nccl_initialized_.get != nullptr && call(class_.nccl_initialized_.get).toBool();
}

void Engine::bind_nccl_comm() const {
  call(class_.bind_nccl_comm_);
}

std::int64_t Engine::rank() const {
  return class_.rank_.get != nullptr ? call(class_.rank_.get).toInt() : -1;
}

std::int64_t Engine::world_size() const {
  return class_.world_size_.get != nullptr ? call(class_.world_size_.get).toInt() : -1;
}

}  // namespace torch_tensorrt::profiles
