#include "core/runtime/profile_scope.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <ranges>
#include <unordered_set>
#include <vector>

namespace torch_tensorrt::profiles {
namespace {

struct Scope {
  std::int64_t token;
  std::shared_ptr<const ProfileScope> said;
  ProfileChoices added;                              // since it was opened
  std::unordered_set<const EngineState*> fell_back;  // and it was said

  [[nodiscard]] std::optional<std::int64_t> index_of(const EngineState& engine) const {
    for (const ProfileChoices* choices : {&added, &said->choices}) {
      const auto choice = choices->find(&engine);
      if (choice != choices->end()) {
        return choice->second.index;
      }
    }
    return said->others;
  }
};

std::vector<Scope>& scopes() {
  static thread_local std::vector<Scope> stack;
  return stack;
}

std::vector<Scope>::iterator find(std::int64_t token) {
  const auto named = std::ranges::find(scopes(), token, &Scope::token);
  TORCH_CHECK(named != scopes().end(), "optimization_profile: scope ", token,
              " is not open on this thread. A scope is closed once, by the thread that opened it.");
  return named;
}

}  // namespace

std::int64_t push_profile_scope(std::shared_ptr<const ProfileScope> scope) {
  static std::atomic<std::int64_t> tokens{0};  // over all threads, so that one thread's token means nothing to another
  scopes().push_back({++tokens, std::move(scope), {}, {}});
  return scopes().back().token;
}

void extend_profile_scope(std::int64_t token, ProfileChoices choices) {
  ProfileChoices& added = find(token)->added;
  choices.merge(added);  // what is new wins
  added = std::move(choices);
}

void pop_profile_scope(std::int64_t token) {
  auto& stack = scopes();
  const auto named = find(token);
  const bool is_innermost = named == stack.end() - 1;
  stack.erase(named);
  TORCH_CHECK(
      is_innermost, "optimization_profile: scope ", token, " was closed before scope ", stack.back().token,
      ", which was opened inside of it on the same thread. The usual cause is asyncio: a scope that spans an await "
      "mixes with the other coroutines of its thread. Close each scope before awaiting, or run the calls in a thread "
      "of their own.");
}

std::optional<ScopedProfile> scoped_profile(const EngineState& engine) {
  for (const Scope& scope : scopes() | std::views::reverse) {
    if (const auto index = scope.index_of(engine)) {
      return ScopedProfile{*index, scope.said->falls_back};
    }
  }
  return std::nullopt;
}

bool is_first_fallback(const EngineState& engine) {
  const auto innermost = std::ranges::find_if(
      scopes() | std::views::reverse, [&engine](const Scope& scope) { return scope.index_of(engine).has_value(); });
  return innermost != scopes().rend() && innermost->fell_back.insert(&engine).second;
}

PreparedScopes& PreparedScopes::instance() {
  // Leaked on purpose: Python drops what it prepared when it ends.
  static auto& prepared = *new PreparedScopes();  // NOLINT(cppcoreguidelines-owning-memory)
  return prepared;
}

std::int64_t PreparedScopes::keep(std::shared_ptr<const ProfileScope> scope) {
  const std::unique_lock lock(mutex_);
  scopes_.emplace(++kept_, std::move(scope));
  return kept_;
}

std::shared_ptr<const ProfileScope> PreparedScopes::at(std::int64_t number) const {
  const std::shared_lock lock(mutex_);
  const auto kept = scopes_.find(number);
  TORCH_CHECK(kept != scopes_.end(), "optimization_profile: there is no prepared scope ", number, ".");
  return kept->second;
}

void PreparedScopes::forget(std::int64_t number) {
  std::shared_ptr<const ProfileScope> scope;  // dies after the lock
  const std::unique_lock lock(mutex_);
  const auto kept = scopes_.find(number);
  if (kept != scopes_.end()) {
    scope = std::move(kept->second);
    scopes_.erase(kept);
  }
}

}  // namespace torch_tensorrt::profiles
