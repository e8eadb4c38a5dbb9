#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/core/runtime/support/harness.h"

// Profiles as a program selects them: through the operators.
namespace torch_tensorrt::profiles::testing {

constexpr std::int64_t kByShape = -1;

// One of our operators that takes engines; returns what it leaves on the stack.
c10::IValue call(const char* name, torch::jit::Stack stack);

void pin(const EnginePtr& engine, std::int64_t index);
void unpin(const EnginePtr& engine);
std::int64_t selected(const EnginePtr& engine);
std::int64_t counter(const EnginePtr& engine, const std::string& name);
// Index and reason, for a first extent, or unknown shapes.
std::pair<std::int64_t, std::string> explain(const EnginePtr& engine, const std::optional<std::int64_t>& extent);

c10::impl::GenericList list_of(const std::vector<EnginePtr>& engines);
std::int64_t push(const std::vector<EnginePtr>& engines, const std::vector<std::int64_t>& indices,
                  const c10::IValue& others = {}, bool falls_back = false);
void pop(std::int64_t token);

// As a `with` block.
class Scope {
 public:
  Scope(const std::vector<EnginePtr>& engines, std::int64_t index, bool falls_back = false)
      : token_(push(engines, std::vector<std::int64_t>(engines.size(), index), {}, falls_back)) {}
  ~Scope() { pop(token_); }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  std::int64_t token_;
};

// The metadata of an engine with this profile record, which is JSON.
std::string metadata_with(const std::string& record);
// An engine whose input x, of shape [n, 3], takes these ranges of n. The names are "a", "b" and so on.
EnginePtr recorded(const std::vector<FakeProfile>& profiles);

}  // namespace torch_tensorrt::profiles::testing
