// Loading and activating the library as a program does: by its two exported functions. Loading order and second copies
// end in a message, never in an abort. Each test wants a process of its own, which ctest gives it and death tests make.
#include <ATen/core/builtin_function.h>
#include <ATen/core/class_type.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <torch/custom_class.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace {

constexpr const char* kEngine = "__torch__.torch.classes.tensorrt.Engine";

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
  // NOLINTBEGIN(modernize-use-nodiscard): done for the effect too
  std::string activate() const { return call("torchtrt_profiles_activate"); }
  std::string deactivate() const { return call("torchtrt_profiles_deactivate"); }
  // NOLINTEND(modernize-use-nodiscard)
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

TEST(Activation, TheEnginesMethodsAreReplacedInTheirPlaceAndGivenBack) {
  in_own_process(
      [] {
        load_engine();
        const auto methods = [] { return torch::getCustomClass(kEngine)->expectRef<c10::ClassType>().methods(); };
        const Copy library(LIBRARY_FILE);
        const auto before = methods();
        std::string out;
        for (int round = 0; round < 2; ++round) {
          library.activate();
          const auto active = methods();
          for (std::size_t i = 0; i < before.size(); ++i) {
            if (active.at(i) != before.at(i)) {
              out += active[i]->name() + " ";
            }
            if (active[i]->qualname().qualifiedName() != before[i]->qualname().qualifiedName() ||
                active[i]->getSchema() != before[i]->getSchema()) {
              out += "(is not the same) ";
            }
          }
          library.deactivate();
          out += methods() == before ? "given back " : "kept ";
        }
        return out;
      },
      "^(enable_profiling disable_profiling set_profile_format set_active_profile use_dynamically_allocated_resources "
      "update_runtime_settings given back ){2}$");
}

TEST(Activation, AMethodThatSomebodyElseReplacedStaysTheirs) {
  in_own_process(
      [] {
        load_engine();
        const Copy library(LIBRARY_FILE);
        auto& type = const_cast<c10::ClassType&>(  // NOLINT(cppcoreguidelines-pro-type-const-cast)
            torch::getCustomClass(kEngine)->expectRef<c10::ClassType>());
        library.activate();
        torch::jit::Function* const ours = type.findMethod("enable_profiling");
        torch::jit::BuiltinOpFunction theirs(ours->qualname(), ours->getSchema(),
                                             [ours](torch::jit::Stack& stack) { ours->run(stack); });
        type.unsafeRemoveMethod("enable_profiling");
        type.addMethod(&theirs);
        std::string out;
        for (int round = 0; round < 2; ++round) {
          library.deactivate();
          out += type.findMethod("enable_profiling") == &theirs ? "theirs " : "lost ";
          library.activate();
          out += type.findMethod("enable_profiling") == &theirs ? "theirs " : "lost ";
        }
        return out;
      },
      "^theirs theirs theirs theirs $");
}

TEST(Activation, AMethodThatWasLookedUpOutlivesDeactivation) {
  in_own_process(
      [] {
        load_engine();
        const Copy library(LIBRARY_FILE);
        const auto& engine_class = torch::getCustomClass(kEngine)->expectRef<c10::ClassType>();
        torch::jit::Stack stack{"engine", c10::List<c10::List<std::int64_t>>({c10::List<std::int64_t>({1, 64})}), ""};
        c10::Dispatcher::singleton().findSchemaOrThrow("tensorrt::fake_engine", "").callBoxed(stack);
        const c10::IValue engine = stack.at(0);
        library.activate();
        torch::jit::Function& enable = engine_class.getMethod("enable_profiling");
        library.deactivate();
        stack = {engine};
        enable.run(stack);
        stack = {engine, "trex"};
        engine_class.getMethod("set_profile_format").run(stack);  // the fake aborts where profiling was not enabled
        return std::string("ran");
      },
      "^ran$");
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
