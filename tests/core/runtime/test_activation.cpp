// Loading and activating the library as a program does: by its two exported functions. Loading order and second copies
// end in a message, never in an abort. Each test wants a process of its own, which ctest gives it and death tests make.
#include <ATen/core/dispatch/Dispatcher.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace {

struct Copy {
  explicit Copy(const std::string& path) : handle(::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle == nullptr) {
      std::fprintf(stderr, "%s\n", ::dlerror());
      std::abort();
    }
  }
  [[nodiscard]] std::string call(const char* name) const {
    const auto function = reinterpret_cast<const char* (*)()>(::dlsym(handle, name));
    const char* message = function();
    return message == nullptr ? "" : message;
  }
  std::string activate() const { return call("torchtrt_profiles_activate"); }
  std::string deactivate() const { return call("torchtrt_profiles_deactivate"); }
  void* handle;
};

Copy second_copy() {
  const std::string path = ::testing::TempDir() + "/second_libtorchtrt_profiles.so";
  std::filesystem::copy_file(LIBRARY_FILE, path, std::filesystem::copy_options::overwrite_existing);
  return Copy(path);
}

void load_engine() {
  if (::dlopen(FAKE_ENGINE_FILE, RTLD_NOW | RTLD_LOCAL) == nullptr) {
    std::fprintf(stderr, "%s\n", ::dlerror());
    std::abort();
  }
}

bool has_operator(const char* name) {
  return c10::Dispatcher::singleton().findSchema({name, ""}).has_value();
}

bool overrides_execute_engine() {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("tensorrt::execute_engine", "");
  return op.hasKernelForDispatchKey(c10::DispatchKey::CPU) && op.hasKernelForDispatchKey(c10::DispatchKey::CUDA);
}

// Runs `body` in a process of its own and expects it to print `expected`.
template <typename Body>
void in_own_process(const Body& body, const std::string& expected) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        std::fprintf(stderr, "%s", body().c_str());
        std::_Exit(0);
      },
      ::testing::ExitedWithCode(0), expected);
}

TEST(Activation, LoadingRegistersNothing) {
  in_own_process(
      [] {
        load_engine();
        const Copy library(LIBRARY_FILE);
        return std::string(has_operator("tensorrt::set_profile_execution") || overrides_execute_engine() ? "some"
                                                                                                         : "none");
      },
      "none");
}

TEST(Activation, BeforeTheEngineClassIsAnErrorAndAfterwardsWorks) {
  in_own_process(
      [] {
        const Copy library(LIBRARY_FILE);
        std::string out = library.activate();
        load_engine();
        out += "|" + library.activate();
        return out + (overrides_execute_engine() ? "|active" : "|not");
      },
      "Engine is not registered.*import torch_tensorrt.*\\|\\|active");
}

TEST(Activation, TwiceIsOnce) {
  in_own_process(
      [] {
        load_engine();
        const Copy library(LIBRARY_FILE);
        const Copy again(LIBRARY_FILE);
        std::string out = library.activate();
        out += again.activate();
        out += library.activate();
        return out + (overrides_execute_engine() ? "active" : "not");
      },
      "^active");
}

TEST(Activation, FromTwoPathsNamesBoth) {
  in_own_process(
      [] {
        load_engine();
        const Copy library(LIBRARY_FILE);
        const Copy second = second_copy();
        std::string out = library.activate();
        out += "|" + second.activate();
        out += "|" + library.deactivate();
        return out + second.activate();
      },
      "^\\|.*another copy.*libtorchtrt_profiles.so.*second_libtorchtrt_profiles.so.*\\|$");
}

TEST(Activation, DeactivatingTakesTheKernelsBackAndActivatingAgainWorks) {
  in_own_process(
      [] {
        load_engine();
        const Copy library(LIBRARY_FILE);
        std::string out;
        for (int i = 0; i < 3; ++i) {
          out += library.activate();
          out += overrides_execute_engine() ? "on " : "off ";
          out += library.deactivate();
          out += overrides_execute_engine() ? "on " : "off ";
        }
        return out + library.deactivate();
      },
      "^on off on off on off $");
}

TEST(Activation, AnOperatorAfterDeactivationRaises) {
  in_own_process(
      [] {
        load_engine();
        const Copy library(LIBRARY_FILE);
        library.activate();
        const auto op =
            c10::Dispatcher::singleton().findSchemaOrThrow("tensorrt::get_profile_format", "").typed<std::string()>();
        const std::string before = op.call();
        library.deactivate();
        try {
          return op.call();
        } catch (const std::exception&) {
          return before + " raised";
        }
      },
      "perfetto raised");
}

TEST(Activation, UnloadingKeepsTheCode) {
  in_own_process(
      [] {
        load_engine();
        const Copy library(LIBRARY_FILE);
        library.activate();
        ::dlclose(library.handle);
        return c10::Dispatcher::singleton()
            .findSchemaOrThrow("tensorrt::get_profile_format", "")
            .typed<std::string()>()
            .call();
      },
      "perfetto");
}

}  // namespace
