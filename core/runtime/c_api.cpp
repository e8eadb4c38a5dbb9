#include "core/runtime/c_api.h"

#include <c10/util/Exception.h>

#include <string>

#include "core/runtime/profile_scope.h"
#include "core/runtime/runtime.h"

namespace torch_tensorrt::profiles {
namespace {

template <typename Call>
const char* message_of(const Call& call) noexcept {
  static thread_local std::string message;
  try {
    call();
    return nullptr;
  } catch (const c10::Error& error) {
    message = error.what_without_backtrace();
  } catch (const std::exception& error) {
    message = error.what();
  } catch (...) {
    return "torch-tensorrt-profiles: an unknown error";
  }
  return message.c_str();
}

}  // namespace
}  // namespace torch_tensorrt::profiles

#define TORCHTRT_PROFILES_EXPORT __attribute__((visibility("default")))

extern "C" {

TORCHTRT_PROFILES_EXPORT const char* torchtrt_profiles_activate() noexcept {
  return torch_tensorrt::profiles::message_of([] { torch_tensorrt::profiles::Runtime::instance().activate(); });
}

TORCHTRT_PROFILES_EXPORT const char* torchtrt_profiles_deactivate() noexcept {
  return torch_tensorrt::profiles::message_of([] { torch_tensorrt::profiles::Runtime::instance().deactivate(); });
}

TORCHTRT_PROFILES_EXPORT std::int64_t torchtrt_profiles_push_scope(std::int64_t number) noexcept {
  std::int64_t token = 0;
  torch_tensorrt::profiles::message_of([number, &token] {
    token =
        torch_tensorrt::profiles::push_profile_scope(torch_tensorrt::profiles::PreparedScopes::instance().at(number));
  });
  return token;
}

TORCHTRT_PROFILES_EXPORT const char* torchtrt_profiles_pop_scope(std::int64_t token) noexcept {
  return torch_tensorrt::profiles::message_of([token] { torch_tensorrt::profiles::pop_profile_scope(token); });
}
}
