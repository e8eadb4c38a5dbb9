#pragma once

#include <ATen/core/ivalue.h>

#include <functional>
#include <vector>

#include "core/runtime/torchtrt_engine.h"

namespace torch_tensorrt::profiles {

// What runs when an engine's owner calls one of these methods on it: the method itself, under the engine's lock, so
// that it overlaps no call, and then a note of what the owner wants. Settings go on to the engine's siblings. The lock
// may be waited for without the GIL: Python and TorchScript release it around methods.
void on_own_method(EngineClass::OwnMethod method, const Engine& engine, const std::vector<c10::IValue>& arguments,
                   const std::function<void()>& call_through);

// What was last given to the engine's update_runtime_settings() since activation, which no getter tells; nothing where
// it was not called.
[[nodiscard]] std::vector<c10::IValue> runtime_settings(const Engine& engine);

// Drops the notes on profiling. Owners that called while nobody took any may have changed their minds.
void forget_own_profiling();

}  // namespace torch_tensorrt::profiles
