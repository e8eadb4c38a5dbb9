#include "core/runtime/warnings.h"

#include <c10/util/Exception.h>

namespace torch_tensorrt::profiles {

void DeferredWarnings::add(std::string message) {
  messages_.push_back(std::move(message));
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
