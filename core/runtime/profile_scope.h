#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <unordered_map>

#include "core/runtime/engine_registry.h"

// The calling thread's stack of "these engines run on these profiles" blocks.
namespace torch_tensorrt::profiles {

// In place of an index: each call chooses by its shapes.
constexpr std::int64_t kByShape = -1;

struct ProfileChoice {
  std::weak_ptr<EngineState> engine;  // one that dies inside of a scope gives its state's address to no other
  std::int64_t index = 0;
};
using ProfileChoices = std::unordered_map<const EngineState*, ProfileChoice>;

// What a block says. Made once, opened any number of times.
struct ProfileScope {
  ProfileChoices choices;
  std::optional<std::int64_t> others;  // for every engine that is not listed; nothing: those are left alone
  bool falls_back = false;             // where the index does not take a shape, the first that does runs
};

// What the innermost scope that holds an engine says.
struct ScopedProfile {
  std::int64_t index = 0;
  bool falls_back = false;
};

// Opens a scope on the calling thread; the result closes it.
[[nodiscard]] std::int64_t push_profile_scope(std::shared_ptr<const ProfileScope> scope);

// Adds engines to a scope that is open on the calling thread.
void extend_profile_scope(std::int64_t token, ProfileChoices choices);

// Closes it. Throws where a scope that was opened later is still open (the one named is closed all the same), and where
// the calling thread has no such scope.
void pop_profile_scope(std::int64_t token);

[[nodiscard]] std::optional<ScopedProfile> scoped_profile(const EngineState& engine);

// Whether this is the first time that the innermost scope which holds the engine is asked for it. For a warning.
[[nodiscard]] bool is_first_fallback(const EngineState& engine);

// Scopes that are kept under a number, for callers that open the same ones over and over. By any thread.
class PreparedScopes {
 public:
  static PreparedScopes& instance();

  std::int64_t keep(std::shared_ptr<const ProfileScope> scope);
  // Throws for a number that is not kept (any more).
  [[nodiscard]] std::shared_ptr<const ProfileScope> at(std::int64_t number) const;
  void forget(std::int64_t number);

 private:
  mutable std::shared_mutex mutex_;  // a leaf
  std::int64_t kept_ = 0;
  std::unordered_map<std::int64_t, std::shared_ptr<const ProfileScope>> scopes_;
};

}  // namespace torch_tensorrt::profiles
