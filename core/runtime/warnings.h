#pragma once

#include <string>
#include <vector>

namespace torch_tensorrt::profiles {

// Warnings that arise under our locks and are given out when this object dies. A warning may run Python code, so it
// must be declared before the lock: the lock is then released first.
class DeferredWarnings {
 public:
  DeferredWarnings() = default;
  ~DeferredWarnings();
  DeferredWarnings(const DeferredWarnings&) = delete;
  DeferredWarnings& operator=(const DeferredWarnings&) = delete;
  DeferredWarnings(DeferredWarnings&&) = delete;
  DeferredWarnings& operator=(DeferredWarnings&&) = delete;

  void add(std::string message);

 private:
  std::vector<std::string> messages_;
};

// Whether what is thrown now may reach the caller without its message. AOTInductor replaces the message; it holds
// Python's lock during the call, which torch.ops and TorchScript do not. Without Python nobody can tell.
[[nodiscard]] bool may_lose_messages();

}  // namespace torch_tensorrt::profiles
