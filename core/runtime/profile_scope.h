#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/runtime/engine_registry.h"

// The calling thread's stack of "these engines run on these profiles" blocks.
namespace torch_tensorrt::profiles {

struct ProfileChoice {
  std::weak_ptr<EngineState> engine;
  std::int64_t index = 0;
};

// Opens a scope on the calling thread; the result closes it.
[[nodiscard]] std::int64_t push_profile_scope(const std::vector<ProfileChoice>& choices);

// Closes it. Throws where a scope that was opened later is still open (the one named is closed all the same), and where
// the calling thread has no such scope.
void pop_profile_scope(std::int64_t token);

// The profile that the innermost scope which holds this engine says.
[[nodiscard]] std::optional<std::int64_t> scoped_profile(const EngineState& engine);

}  // namespace torch_tensorrt::profiles
