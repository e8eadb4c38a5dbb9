#pragma once

#include <ATen/core/class_type.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/function.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <ATen/core/stack.h>
#include <c10/util/Exception.h>

#include <cstdint>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

// How profiles.h reaches the library: its two functions, and the operators that it registers. Not for use elsewhere.

extern "C" {
// Null, or what is wrong: valid until the next call on this thread.
const char* torchtrt_profiles_activate() noexcept;
const char* torchtrt_profiles_deactivate() noexcept;
}

namespace torch_tensorrt::profiles::detail {

inline constexpr std::int64_t kByShape = -1;  // in place of an index, to the library only
inline constexpr const char* kEngineClass = "__torch__.torch.classes.tensorrt.Engine";

// Nothing where the library is not active.
inline std::optional<c10::OperatorHandle> find_active(const char* name) {
  auto op = c10::Dispatcher::singleton().findSchema({name, ""});
  return op && op->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) ? op : std::nullopt;
}

inline c10::OperatorHandle require_active(const char* name) {
  auto op = find_active(name);
  if (!op) {
    throw std::runtime_error(
        "torch-tensorrt-profiles is not active in this process: load Torch-TensorRT's library, then call "
        "torch_tensorrt::profiles::activate()");
  }
  return *op;
}

// Arguments are of the exact types of the operator's kernel.
template <typename Result, typename... Arguments>
Result call(const char* name, Arguments... arguments) {
  return require_active(name).typed<Result(Arguments...)>().call(std::move(arguments)...);
}

inline std::int64_t push_profile_scope(const std::vector<c10::IValue>& engines,
                                       const std::vector<std::int64_t>& indices, bool falls_back) {
  const c10::impl::GenericList list(engines.at(0).type());
  for (const c10::IValue& engine : engines) {
    list.push_back(engine);
  }
  torch::jit::Stack stack{list, indices, c10::IValue(), falls_back};
  require_active("tensorrt::_push_profile_scope").callBoxed(stack);
  return stack.at(0).toInt();
}

inline bool is_engine(const c10::IValue& value) {
  if (!value.isObject()) {
    return false;
  }
  const auto& name = value.toObjectRef().type()->name();
  return name && name->qualifiedName() == kEngineClass;
}

inline void require_engine(const c10::IValue& value) {
  if (!is_engine(value)) {
    throw std::invalid_argument("expected an engine of Torch-TensorRT, got a value of type " + value.type()->str());
  }
}

inline c10::IValue call_method(const c10::IValue& object, const char* name) {
  torch::jit::Stack stack{object};
  object.toObjectRef().type()->getMethod(name).run(stack);
  return std::move(stack.at(0));
}

inline c10::IValue get_property(const c10::IValue& object, const char* name) {
  torch::jit::Stack stack{object};
  const auto property = object.toObjectRef().type()->getProperty(name);
  if (!property) {
    throw std::runtime_error(std::string(kEngineClass) + " has no property " + name +
                             "; this is another version of Torch-TensorRT");
  }
  property->getter->run(stack);
  return std::move(stack.at(0));
}

// For destructors. Never throws.
inline void warn(const char* what, const std::exception& error) noexcept {
  try {
    const auto* c10_error = dynamic_cast<const c10::Error*>(&error);
    TORCH_WARN("torch-tensorrt-profiles: ", what,
               c10_error != nullptr ? c10_error->what_without_backtrace() : error.what());
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): a warning that is an error has nowhere to go
  }
}

}  // namespace torch_tensorrt::profiles::detail
