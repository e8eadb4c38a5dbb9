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

}  // namespace torch_tensorrt::profiles
