#include "core/runtime/profile_scope.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <ranges>
#include <unordered_map>

namespace torch_tensorrt::profiles {
namespace {

struct Choice {
  std::weak_ptr<EngineState>
      keeps_address;  // an engine that dies inside of a scope gives its state's address to no other
  std::int64_t index;
};

struct Scope {
  std::int64_t token;
  std::unordered_map<const EngineState*, Choice> choices;
};

std::vector<Scope>& scopes() {
  static thread_local std::vector<Scope> stack;
  return stack;
}

}  // namespace

std::int64_t push_profile_scope(const std::vector<ProfileChoice>& choices) {
  static std::atomic<std::int64_t> tokens{0};  // over all threads, so that one thread's token means nothing to another
  Scope scope{++tokens, {}};
  for (const ProfileChoice& choice : choices) {
    scope.choices.insert_or_assign(choice.engine.lock().get(), Choice{choice.engine, choice.index});
  }
  scopes().push_back(std::move(scope));
  return scopes().back().token;
}

void pop_profile_scope(std::int64_t token) {
  auto& stack = scopes();
  const auto named = std::ranges::find(stack, token, &Scope::token);
  TORCH_CHECK(named != stack.end(), "optimization_profile: scope ", token,
              " is not open on this thread. A scope is closed once, by the thread that opened it.");
  const bool is_innermost = named == stack.end() - 1;
  stack.erase(named);
  TORCH_CHECK(
      is_innermost, "optimization_profile: scope ", token, " was closed before scope ", stack.back().token,
      ", which was opened inside of it on the same thread. The usual cause is asyncio: a scope that spans an await "
      "mixes with the other coroutines of its thread. Close each scope before awaiting, or run the calls in a thread "
      "of their own.");
}

std::optional<std::int64_t> scoped_profile(const EngineState& engine) {
  for (const Scope& scope : scopes() | std::views::reverse) {
    const auto choice = scope.choices.find(&engine);
    if (choice != scope.choices.end()) {
      return choice->second.index;
    }
  }
  return std::nullopt;
}

}  // namespace torch_tensorrt::profiles
