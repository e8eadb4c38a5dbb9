#pragma once

#include <ATen/core/Dict.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/runtime/engine_registry.h"
#include "core/runtime/torchtrt_engine.h"

// Which optimization profile an engine is to run on: the innermost scope of the thread that holds it, else its pin,
// else whatever index others last set on it (its base).
namespace torch_tensorrt::profiles {

struct Selection {
  std::int64_t index = 0;
  bool is_scoped = false;
};

// For a call on this thread, the engine being on `active`. Takes note of what others set since the last switch of ours.
[[nodiscard]] Selection select_profile(EngineState& state, std::int64_t active);

// What the operators do; each takes the engine's lock. They throw for an object that is no engine of the class we know.
void pin_profile(const Engine& engine, std::int64_t index);
void unpin_profile(const Engine& engine);
[[nodiscard]] std::int64_t selected_profile(const Engine& engine);
[[nodiscard]] std::int64_t push_profile_scope_over(const std::vector<Engine>& engines,
                                                   const std::vector<std::int64_t>& indices);
// "switches": how often we switched; "runs_<i>": calls that ran on profile i.
[[nodiscard]] c10::Dict<std::string, std::int64_t> profile_counters(const Engine& engine);

}  // namespace torch_tensorrt::profiles
