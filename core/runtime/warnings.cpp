#include "core/runtime/warnings.h"

#include <c10/util/Exception.h>
#include <dlfcn.h>

namespace torch_tensorrt::profiles {

void DeferredWarnings::add(std::string message) {
  messages_.push_back(std::move(message));
}

bool may_lose_messages() {
  // The interpreter is not ours to link with, and need not be there.
  using Check = int (*)();
  const auto is_running = reinterpret_cast<Check>(::dlsym(RTLD_DEFAULT, "Py_IsInitialized"));
  const auto holds_lock = reinterpret_cast<Check>(::dlsym(RTLD_DEFAULT, "PyGILState_Check"));
  return is_running == nullptr || holds_lock == nullptr || is_running() == 0 || holds_lock() != 0;
}

DeferredWarnings::~DeferredWarnings() {
  for (const std::string& message : messages_) {
    try {
      TORCH_WARN(message);
    } catch (...) {  // NOLINT(bugprone-empty-catch): a warning handler that throws must not take the inference with it
    }
  }
}

}  // namespace torch_tensorrt::profiles
