#include "core/runtime/register_jit_hooks.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <dlfcn.h>
#include <torch/csrc/jit/frontend/function_schema_parser.h>
#include <torch/library.h>

#include <array>
#include <tuple>

#include "core/runtime/context_numbers.h"
#include "core/runtime/execute_engine.h"
#include "core/runtime/own_methods.h"
#include "core/runtime/profile_contexts.h"
#include "core/runtime/profile_listing.h"
#include "core/runtime/profile_scope.h"
#include "core/runtime/profile_selection.h"
#include "core/runtime/runtime.h"
#include "core/runtime/timing_report.h"

namespace torch_tensorrt::profiles {
namespace {

constexpr std::array kSchemas{
    "tensorrt::set_profile_execution(bool enabled) -> ()",
    "tensorrt::set_profile_format(str format) -> ()",
    "tensorrt::set_profile_path_prefix(str prefix) -> ()",
    "tensorrt::get_profile_execution() -> bool",
    "tensorrt::get_profile_format() -> str",
    "tensorrt::get_profile_path_prefix() -> str",
    "tensorrt::get_profile_generation() -> int",
    "tensorrt::get_profiling_config() -> (bool enabled, str format, str path_prefix, int generation)",
    "tensorrt::set_profiling_config(bool enabled, str format, str path_prefix) -> ()",
    "tensorrt::dump_engine_timing() -> str",
    "tensorrt::set_active_profile(__torch__.torch.classes.tensorrt.Engine engine, int index) -> ()",
    "tensorrt::clear_active_profile(__torch__.torch.classes.tensorrt.Engine engine) -> ()",
    "tensorrt::get_active_profile(__torch__.torch.classes.tensorrt.Engine engine) -> int",
    "tensorrt::get_optimization_profiles(__torch__.torch.classes.tensorrt.Engine engine) -> (str[] names, int[] "
    "indices, str[] inputs, int[][] min, int[][] opt, int[][] max)",
    "tensorrt::get_profile_counters(__torch__.torch.classes.tensorrt.Engine engine) -> Dict(str, int)",
    "tensorrt::_make_profile_contexts(__torch__.torch.classes.tensorrt.Engine engine) -> Dict(str, int)",
    "tensorrt::_drop_profile_contexts(__torch__.torch.classes.tensorrt.Engine engine) -> ()",
    "tensorrt::_push_profile_scope(__torch__.torch.classes.tensorrt.Engine[] engines, int[] indices, int? others=None, "
    "bool fallback=False) -> int",
    "tensorrt::_prepare_profile_scope(__torch__.torch.classes.tensorrt.Engine[] engines, int[] indices, "
    "int? others=None, bool fallback=False) -> int",
    "tensorrt::_push_prepared_profile_scope(int number) -> int",
    "tensorrt::_forget_profile_scope(int number) -> ()",
    "tensorrt::_extend_profile_scope(int token, __torch__.torch.classes.tensorrt.Engine[] engines, int[] indices) -> "
    "()",
    "tensorrt::_pop_profile_scope(int token) -> ()",
    "tensorrt::_explain_profile(__torch__.torch.classes.tensorrt.Engine engine, int[][]? shapes) -> (int index, str "
    "why)",
    "tensorrt::_get_runtime_settings(__torch__.torch.classes.tensorrt.Engine engine) -> Any[]",
    "tensorrt::_context_numbers(__torch__.torch.classes.tensorrt.Engine[] engines) -> int[]",
    "tensorrt::_profiles_library() -> str",  // the file of the active copy
};
constexpr const char* kLibraryOperator = "tensorrt::_profiles_library";

c10::OperatorName name_of(const char* schema) {
  return torch::jit::parseSchema(schema).operator_name();
}

std::string library_path() {
  Dl_info where{};
  return ::dladdr(reinterpret_cast<const void*>(&library_path), &where) != 0 ? where.dli_fname : "(unknown)";
}

// The active copy's kernel; nothing where no copy is active.
std::optional<c10::OperatorHandle> with_kernel(const c10::OperatorName& name) {
  auto op = c10::Dispatcher::singleton().findSchema(name);
  return op && op->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) ? op : std::nullopt;
}

// The dispatcher does not check what C++ callers give.
Engine engine_of(const c10::IValue& value) {
  const EngineClass& engine_class = Runtime::instance().engine_class();
  TORCH_CHECK_TYPE(engine_class.is_engine(value),
                   "torch-tensorrt-profiles: expected an engine of Torch-TensorRT, got a value of type ",
                   value.type()->str(), ".");
  return {engine_class, value};
}

// Boxed, because the engine's C++ type is not ours to name.
void set_active_profile(const c10::OperatorHandle& /*op*/, torch::jit::Stack* stack) {
  const std::int64_t index = torch::jit::pop(*stack).toInt();
  pin_profile(engine_of(torch::jit::pop(*stack)), index);
}

void clear_active_profile(const c10::OperatorHandle& /*op*/, torch::jit::Stack* stack) {
  unpin_profile(engine_of(torch::jit::pop(*stack)));
}

void get_active_profile(const c10::OperatorHandle& /*op*/, torch::jit::Stack* stack) {
  const std::int64_t index = selected_profile(engine_of(torch::jit::pop(*stack)));
  torch::jit::push(*stack, index);
}

void get_optimization_profiles(const c10::OperatorHandle& /*op*/, torch::jit::Stack* stack) {
  auto listing = list_profiles(engine_of(torch::jit::pop(*stack)));
  torch::jit::push(*stack, std::move(listing.names), std::move(listing.indices), std::move(listing.inputs),
                   std::move(listing.min), std::move(listing.opt), std::move(listing.max));
}

void get_profile_counters(const c10::OperatorHandle& /*op*/, torch::jit::Stack* stack) {
  const auto counters = profile_counters(engine_of(torch::jit::pop(*stack)));
  torch::jit::push(*stack, counters);
}

void make_profile_contexts(const c10::OperatorHandle& /*op*/, torch::jit::Stack* stack) {
  const auto report = make_profile_contexts(engine_of(torch::jit::pop(*stack)));
  torch::jit::push(*stack, report);
}

void drop_profile_contexts(const c10::OperatorHandle& /*op*/, torch::jit::Stack* stack) {
  drop_profile_contexts(engine_of(torch::jit::pop(*stack)));
}

std::vector<Engine> engines_of(const c10::IValue& list) {
  std::vector<Engine> engines;
  for (const c10::IValue& engine : list.toListRef()) {
    engines.push_back(engine_of(engine));
  }
  return engines;
}

std::shared_ptr<const ProfileScope> pop_scope_off(torch::jit::Stack& stack) {
  const bool falls_back = torch::jit::pop(stack).toBool();
  const auto others = torch::jit::pop(stack).toOptional<std::int64_t>();
  const auto indices = torch::jit::pop(stack).toIntVector();
  const auto engines = engines_of(torch::jit::pop(stack));
  return make_profile_scope(engines, indices, others, falls_back);
}

void push_profile_scope(const c10::OperatorHandle& /*op*/, torch::jit::Stack* stack) {
  const std::int64_t token = push_profile_scope(pop_scope_off(*stack));
  torch::jit::push(*stack, token);
}

void prepare_profile_scope(const c10::OperatorHandle& /*op*/, torch::jit::Stack* stack) {
  const std::int64_t number = PreparedScopes::instance().keep(pop_scope_off(*stack));
  torch::jit::push(*stack, number);
}

void extend_profile_scope(const c10::OperatorHandle& /*op*/, torch::jit::Stack* stack) {
  const auto indices = torch::jit::pop(*stack).toIntVector();
  const auto engines = engines_of(torch::jit::pop(*stack));
  extend_profile_scope(torch::jit::pop(*stack).toInt(), choices_of(engines, indices));
}

void explain_profile(const c10::OperatorHandle& /*op*/, torch::jit::Stack* stack) {
  const auto shapes = torch::jit::pop(*stack).toOptional<std::vector<std::vector<std::int64_t>>>();
  const auto [index, why] = explain_profile(engine_of(torch::jit::pop(*stack)), shapes);
  torch::jit::push(*stack, index, why);
}

void get_runtime_settings(const c10::OperatorHandle& /*op*/, torch::jit::Stack* stack) {
  const c10::impl::GenericList list(c10::AnyType::get());
  for (c10::IValue& setting : runtime_settings(engine_of(torch::jit::pop(*stack)))) {
    list.push_back(std::move(setting));
  }
  torch::jit::push(*stack, list);
}

void context_numbers(const c10::OperatorHandle& /*op*/, torch::jit::Stack* stack) {
  const auto numbers = context_numbers(engines_of(torch::jit::pop(*stack)));
  torch::jit::push(*stack, numbers);
}

std::unique_ptr<torch::Library> implement_operators() {
  auto library = std::make_unique<torch::Library>(torch::Library::IMPL, "tensorrt", std::nullopt, __FILE__, __LINE__);
  torch::Library& m = *library;
  // Strings by value: C++ callers name the exact type, typed<void(std::string)>().
  // NOLINTBEGIN(performance-unnecessary-value-param)
  m.impl("set_profile_execution", [](bool enabled) { Runtime::instance().set_profile_execution(enabled); });
  m.impl("set_profile_format", [](std::string format) { Runtime::instance().set_profile_format(format); });
  m.impl("set_profile_path_prefix", [](std::string prefix) { Runtime::instance().set_profile_path_prefix(prefix); });
  m.impl("get_profile_execution", [] { return Runtime::instance().profiling_config().enabled; });
  m.impl("get_profile_format", [] { return Runtime::instance().profiling_config().profile_format; });
  m.impl("get_profile_path_prefix", [] { return Runtime::instance().profiling_config().profile_path_prefix; });
  m.impl("get_profile_generation", [] { return static_cast<std::int64_t>(Runtime::instance().generation()); });
  m.impl("get_profiling_config", [] {
    const GlobalProfilingConfig config = Runtime::instance().profiling_config();
    return std::make_tuple(config.enabled, config.profile_format, config.profile_path_prefix,
                           static_cast<std::int64_t>(config.generation));
  });
  m.impl("set_profiling_config", [](bool enabled, std::string format, std::string path_prefix) {
    Runtime::instance().set_profiling_config(enabled, format, path_prefix);
  });
  // NOLINTEND(performance-unnecessary-value-param)
  m.impl("dump_engine_timing", [] { return timing_report(); });
  m.impl("set_active_profile", torch::CppFunction::makeFromBoxedFunction<&set_active_profile>());
  m.impl("clear_active_profile", torch::CppFunction::makeFromBoxedFunction<&clear_active_profile>());
  m.impl("get_active_profile", torch::CppFunction::makeFromBoxedFunction<&get_active_profile>());
  m.impl("get_optimization_profiles", torch::CppFunction::makeFromBoxedFunction<&get_optimization_profiles>());
  m.impl("get_profile_counters", torch::CppFunction::makeFromBoxedFunction<&get_profile_counters>());
  m.impl("_make_profile_contexts", torch::CppFunction::makeFromBoxedFunction<&make_profile_contexts>());
  m.impl("_drop_profile_contexts", torch::CppFunction::makeFromBoxedFunction<&drop_profile_contexts>());
  m.impl("_push_profile_scope", torch::CppFunction::makeFromBoxedFunction<&push_profile_scope>());
  m.impl("_prepare_profile_scope", torch::CppFunction::makeFromBoxedFunction<&prepare_profile_scope>());
  m.impl("_push_prepared_profile_scope",
         [](std::int64_t number) { return push_profile_scope(PreparedScopes::instance().at(number)); });
  m.impl("_forget_profile_scope", [](std::int64_t number) { PreparedScopes::instance().forget(number); });
  m.impl("_get_runtime_settings", torch::CppFunction::makeFromBoxedFunction<&get_runtime_settings>());
  m.impl("_context_numbers", torch::CppFunction::makeFromBoxedFunction<&context_numbers>());
  m.impl("_extend_profile_scope", torch::CppFunction::makeFromBoxedFunction<&extend_profile_scope>());
  m.impl("_explain_profile", torch::CppFunction::makeFromBoxedFunction<&explain_profile>());
  m.impl("_pop_profile_scope", [](std::int64_t token) { pop_profile_scope(token); });
  m.impl("_profiles_library", [] { return library_path(); });
  return library;
}

std::unique_ptr<torch::Library> override_execute_engine(c10::DispatchKey key) {
  auto library = std::make_unique<torch::Library>(torch::Library::IMPL, "tensorrt", key, __FILE__, __LINE__);
  library->impl("execute_engine", torch::CppFunction::makeFromBoxedFunction<&execute_engine>());
  return library;
}

}  // namespace

void check_operators_are_free() {
  if (const auto op = with_kernel({kLibraryOperator, ""})) {
    torch::jit::Stack stack;
    op->callBoxed(stack);
    TORCH_CHECK(false, "torch-tensorrt-profiles: another copy of this library is active, ",
                torch::jit::pop(stack).toStringRef(), "; this one is ", library_path(),
                ". Deactivate that one first, and keep one installation of torch-tensorrt-profiles.");
  }
  for (const char* schema : kSchemas) {
    const c10::OperatorName name = name_of(schema);
    TORCH_CHECK(!with_kernel(name), "torch-tensorrt-profiles: the operator ", name,
                " exists already and is not this library's. Remove what registers it, or do without "
                "torch-tensorrt-profiles (TORCHTRT_PROFILES=0).");
  }
}

void define_operators() {
  // Leaked on purpose, see the header.
  static auto& library =  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory)
      *new torch::Library(torch::Library::FRAGMENT, "tensorrt", std::nullopt, __FILE__, __LINE__);
  for (const char* schema : kSchemas) {
    if (!c10::Dispatcher::singleton().findSchema(name_of(schema))) {
      // TorchScript would take an operator that returns nothing for one that does nothing, and leave it out.
      library.def(torch::schema(schema, c10::AliasAnalysisKind::CONSERVATIVE));
    }
  }
}

std::vector<std::unique_ptr<torch::Library>> register_kernels() {
  std::vector<std::unique_ptr<torch::Library>> libraries;
  libraries.push_back(implement_operators());
  // Torch-TensorRT's own kernel is CompositeExplicitAutograd, which these two keys come before. It moves CPU tensors
  // itself.
  libraries.push_back(override_execute_engine(c10::DispatchKey::CUDA));
  libraries.push_back(override_execute_engine(c10::DispatchKey::CPU));
  return libraries;
}

}  // namespace torch_tensorrt::profiles
