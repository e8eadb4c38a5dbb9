#include "core/runtime/execute_engine.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include "core/runtime/engine_registry.h"
#include "core/runtime/engine_session.h"
#include "core/runtime/profile_contexts.h"
#include "core/runtime/runtime.h"
#include "core/runtime/warnings.h"

namespace torch_tensorrt::profiles {

void execute_engine(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/, torch::jit::Stack* stack) {
  const auto call_through = [&op, stack] {
    op.callBoxedForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd, *stack);
  };
  // The stack may hold the last reference, so we hold one, which keeps the state as well. In this order, so that the
  // lock goes first, then what waited for it, and the engine last.
  Runtime& runtime = Runtime::instance();
  const Engine engine(runtime.engine_class(), torch::jit::peek(*stack, 1, 2));
  EngineState* const state = EngineRegistry::instance().of(engine);
  DeferredWarnings warnings;
  if (state == nullptr) {
    warn_of_unknown_engine(warnings);
    call_through();
    return;
  }
  const c10::IValue& inputs = torch::jit::peek(*stack, 0, 2);
  const ContextLock target(engine, *state, inputs);
  try {
    if (target.is_sibling()) {
      torch::jit::peek(*stack, 1, 2) = target.engine().value();
    }
    EngineSession session(runtime, target.engine(), target.state(), *state, target.selection(), inputs, warnings);
    session.prepare();
    session.run(call_through);
    session.finish();
  } catch (const std::exception& error) {
    if (may_lose_messages()) {
      const auto* const ours = dynamic_cast<const c10::Error*>(&error);
      warnings.add(ours != nullptr ? ours->what_without_backtrace() : error.what());
    }
    throw;
  }
}

}  // namespace torch_tensorrt::profiles
