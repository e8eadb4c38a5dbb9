#include "tests/core/runtime/support/harness.h"

#include <fstream>
#include <iterator>

#include "core/runtime/c_api.h"

namespace torch_tensorrt::profiles::testing {

void set_enabled(bool enabled) {
  op<void, bool>("set_profile_execution", enabled);
}

void set_format(const std::string& format) {
  op<void, std::string>("set_profile_format", format);
}

void set_prefix(const std::string& prefix) {
  op<void, std::string>("set_profile_path_prefix", prefix);
}

std::int64_t generation() {
  return op<std::int64_t>("get_profile_generation");
}

std::tuple<bool, std::string, std::string, std::int64_t> config() {
  return op<std::tuple<bool, std::string, std::string, std::int64_t>>("get_profiling_config");
}

EnginePtr make_engine(FakeOptions options) {
  return c10::make_intrusive<TRTEngine>(std::move(options));
}

namespace {

at::Tensor run_on(torch::jit::Stack stack) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("tensorrt::execute_engine", "");
  op.callBoxed(stack);
  return stack.at(0).toTensorVector().at(0);
}

}  // namespace

at::Tensor run(const EnginePtr& engine, std::int64_t extent) {
  torch::jit::Stack stack;
  stack.emplace_back(c10::List<at::Tensor>({at::ones({extent, 3})}));
  stack.emplace_back(engine);
  return run_on(std::move(stack));
}

at::Tensor run_last(EnginePtr engine) {
  torch::jit::Stack stack;
  stack.emplace_back(c10::List<at::Tensor>({at::ones({2, 3})}));
  stack.emplace_back(std::move(engine));
  return run_on(std::move(stack));
}

namespace {

void call_method(const char* name, torch::jit::Stack stack) {
  torch::jit::Function& method = stack.at(0).toObjectRef().type()->getMethod(name);
  method.run(stack);
}

}  // namespace

void enable_own_profiling(const EnginePtr& engine) {
  call_method("enable_profiling", {engine});
}

void disable_own_profiling(const EnginePtr& engine) {
  call_method("disable_profiling", {engine});
}

void set_own_format(const EnginePtr& engine, const std::string& format) {
  call_method("set_profile_format", {engine, format});
}

std::string read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in) << path << " is not there";
  return {std::istreambuf_iterator<char>(in), {}};
}

Warnings::Warnings() : before_(c10::WarningUtils::get_warning_handler()) {
  c10::WarningUtils::set_warning_handler(&handler_);
}

Warnings::~Warnings() {
  c10::WarningUtils::set_warning_handler(before_);
}

void CoreTest::SetUp() {
  ASSERT_EQ(torchtrt_profiles_activate(), nullptr);
  std::string pattern = std::filesystem::temp_directory_path().string() + "/torchtrt_profiles_test.XXXXXX";
  ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
  folder_ = pattern;
  op<void, bool, std::string, std::string>("set_profiling_config", false, "perfetto", folder_);
}

void CoreTest::TearDown() {
  op<void, bool, std::string, std::string>("set_profiling_config", false, "perfetto", "/tmp");
  std::filesystem::remove_all(folder_);
}

}  // namespace torch_tensorrt::profiles::testing
