#pragma once

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/profiler_legacy.h>

#include <filesystem>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/core/runtime/support/fake_engine.h"

namespace torch_tensorrt::profiles::testing {

using core::runtime::FakeLayer;
using core::runtime::FakeOptions;
using core::runtime::FakeProfile;
using core::runtime::TRTEngine;
using EnginePtr = c10::intrusive_ptr<TRTEngine>;

// Calls one of our operators through the dispatcher, as a program without Python does.
template <typename Result, typename... Arguments>
Result op(const char* name, Arguments... arguments) {
  return c10::Dispatcher::singleton()
      .findSchemaOrThrow((std::string("tensorrt::") + name).c_str(), "")
      .typed<Result(Arguments...)>()
      .call(std::forward<Arguments>(arguments)...);
}

void set_enabled(bool enabled);
void set_format(const std::string& format);
void set_prefix(const std::string& prefix);
std::int64_t generation();
std::tuple<bool, std::string, std::string, std::int64_t> config();

EnginePtr make_engine(FakeOptions options = {});
// tensorrt::execute_engine on one tensor whose first extent is given. Throws what the call throws.
at::Tensor run(const EnginePtr& engine, std::int64_t extent = 2);
// The same with the only reference on the stack.
at::Tensor run_last(EnginePtr engine);

// An engine's own profiling methods as its owner calls them, by TorchBind name. The C++ members of the same names are
// the engine's own affair: nobody sees them.
void enable_own_profiling(const EnginePtr& engine);
void disable_own_profiling(const EnginePtr& engine);
void set_own_format(const EnginePtr& engine, const std::string& format);

std::string read(const std::string& path);
// Runs `during`, returns the message of what it throws, "" for nothing.
template <typename Call>
std::string message_of(const Call& during) {
  try {
    during();
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

// torch.profiler is active on this thread.
class TorchProfiler {
  torch::autograd::profiler::TLSLegacyProfilerGuard guard_{
      torch::profiler::impl::ProfilerConfig(torch::profiler::impl::ProfilerState::CPU)};
};

// Collects warnings of this thread.
class Warnings {
 public:
  Warnings();
  ~Warnings();
  Warnings(const Warnings&) = delete;
  Warnings& operator=(const Warnings&) = delete;
  [[nodiscard]] const std::vector<std::string>& messages() const { return handler_.messages; }

 private:
  struct Handler : public c10::WarningHandler {
    void process(const c10::Warning& warning) override { messages.push_back(warning.msg()); }
    std::vector<std::string> messages;
  };
  Handler handler_;
  c10::WarningHandler* before_;
};

// The library is active, profiling is off, and there is an empty folder for traces.
class CoreTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  [[nodiscard]] std::string folder(const std::string& name = {}) const {
    return name.empty() ? folder_ : folder_ + "/" + name;
  }

 private:
  std::string folder_;
};

}  // namespace torch_tensorrt::profiles::testing
