// Profiles the engines inside an AOTInductor package from a process without Python: nothing but the C++ dispatcher, and
// no handle to an engine. Prints what it saw as JSON; exits with 1, and the reason in it, where something is not as it
// should be.
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/cuda.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace {

namespace fs = std::filesystem;

constexpr const char* kUsage =
    "usage: profile_package --torchtrt FILE --profiles FILE --package FILE --prefix FOLDER --input FILE --shape "
    "N,N,...\n"
    "                       --expected FILE [--format perfetto|trex] [--device cuda|cpu]\n"
    "  --torchtrt   libtorchtrt_runtime.so or libtorchtrt.so\n"
    "  --profiles   libtorchtrt_profiles.so\n"
    "  --package    AOTInductor package (.pt2) with one input and one output, both float32\n"
    "  --prefix     folder for the traces; it must be empty or not exist\n"
    "  --input      raw float32 values of the input, --shape its shape; --expected those of the output\n";

using Arguments = std::map<std::string, std::string>;
using Snapshot = std::map<std::string, std::string>;  // content by path

Arguments parse(int count, char** words) {
  Arguments arguments{{"format", "perfetto"}, {"device", "cuda"}};
  for (int i = 1; i < count; i += 2) {
    const std::string_view word(words[i]);
    if (word.substr(0, 2) != "--" || i + 1 == count) {
      throw std::invalid_argument("unexpected argument '" + std::string(word) + "'");
    }
    arguments[std::string(word.substr(2))] = words[i + 1];
  }
  for (const char* needed : {"torchtrt", "profiles", "package", "prefix", "input", "shape", "expected"}) {
    if (arguments.count(needed) == 0) {
      throw std::invalid_argument(std::string("--") + needed + " is missing");
    }
  }
  return arguments;
}

void expect(bool condition, const std::string& what) {
  if (!condition) {
    throw std::runtime_error(what);
  }
}

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  expect(in.good(), "cannot read " + path.string());
  return std::string(std::istreambuf_iterator<char>(in), {});
}

at::Tensor read_floats(const std::string& path) {
  const std::string bytes = read_file(path);
  expect(bytes.size() % sizeof(float) == 0, path + " does not hold float32 values");
  at::Tensor values = at::empty({static_cast<std::int64_t>(bytes.size() / sizeof(float))}, at::kFloat);
  std::copy(bytes.begin(), bytes.end(), static_cast<char*>(values.data_ptr()));
  return values;
}

std::vector<std::int64_t> parse_shape(const std::string& text) {
  std::vector<std::int64_t> shape;
  std::istringstream stream(text);
  for (std::string extent; std::getline(stream, extent, ',');) {
    shape.push_back(std::stoll(extent));
  }
  return shape;
}

void* load(const std::string& path) {
  void* library = ::dlopen(path.c_str(), RTLD_NOW);
  if (library == nullptr) {
    throw std::runtime_error(std::string("cannot load a library: ") + ::dlerror());
  }
  return library;
}

void activate(void* library) {
  auto* activate = reinterpret_cast<const char* (*)()>(::dlsym(library, "torchtrt_profiles_activate"));
  expect(activate != nullptr, "the profiles library has no torchtrt_profiles_activate");
  const char* message = activate();
  expect(message == nullptr, message == nullptr ? "" : message);
}

template <typename Signature>
c10::TypedOperatorHandle<Signature> find(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

void set_profiling(bool enabled, const std::string& format, const std::string& prefix) {
  find<void(bool, std::string, std::string)>("tensorrt::set_profiling_config").call(enabled, format, prefix);
}

// Neither linked nor loaded on the way by somebody else.
bool has_python() {
  return ::dlsym(RTLD_DEFAULT, "Py_IsInitialized") != nullptr ||
         read_file("/proc/self/maps").find("libpython") != std::string::npos;
}

Snapshot snapshot(const fs::path& folder) {
  Snapshot files;
  if (fs::exists(folder)) {
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (entry.is_regular_file()) {
        files[entry.path().string()] = read_file(entry.path());
      }
    }
  }
  return files;
}

std::size_t count(const Snapshot& files, std::string_view suffix) {
  std::size_t found = 0;
  for (const auto& [path, content] : files) {
    found +=
        path.size() >= suffix.size() && path.compare(path.size() - suffix.size(), suffix.size(), suffix) == 0 ? 1 : 0;
  }
  return found;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof(code), "\\u%04x", static_cast<unsigned>(c));
      out += code;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

class Program {
 public:
  explicit Program(const Arguments& arguments)
      : loader_(arguments.at("package")),
        input_(
            read_floats(arguments.at("input")).reshape(parse_shape(arguments.at("shape"))).to(arguments.at("device"))),
        expected_(read_floats(arguments.at("expected"))) {}

  // Runs the package once and compares; waits for the result.
  void run(const char* when) {
    const std::vector<at::Tensor> outputs = loader_.run({input_});
    expect(outputs.size() == 1, std::string(when) + ": one output was expected");
    const at::Tensor output = outputs[0].to(at::kCPU).to(at::kFloat).reshape({-1});
    expect(output.numel() == expected_.numel(), std::string(when) + ": the output has another size than expected");
    const auto error = (output - expected_).abs().max().item<double>();
    largest_error_ = std::max(largest_error_, error);
    expect(error < 2e-2, std::string(when) + ": the output is wrong by " + std::to_string(error));
  }

  [[nodiscard]] double largest_error() const { return largest_error_; }

 private:
  torch::inductor::AOTIModelPackageLoader loader_;
  at::Tensor input_;
  at::Tensor expected_;
  double largest_error_ = 0;
};

std::string profile(const Arguments& arguments) {
  expect(arguments.at("device") != "cuda" || torch::cuda::is_available(), "torch finds no CUDA device on this host");
  expect(!has_python(), "there is a Python in this process");
  load(arguments.at("torchtrt"));
  activate(load(arguments.at("profiles")));

  const std::string& prefix = arguments.at("prefix");
  const std::string& format = arguments.at("format");
  expect(snapshot(prefix).empty(), prefix + " is not empty");
  const auto generation = find<std::int64_t()>("tensorrt::get_profile_generation");
  expect(generation.call() == 0, "profiling is configured before anybody did");

  Program program(arguments);
  program.run("before profiling");
  expect(snapshot(prefix).empty(), "traces were written before profiling was enabled");

  set_profiling(true, format, prefix);
  program.run("profiled");
  program.run("profiled again");
  const Snapshot files = snapshot(prefix);
  const std::size_t engines = count(files, "_engine_execution_profile.trace");
  expect(engines > 0, "no engine trace was written");
  for (const char* suffix : {"_input_profile.trace", "_output_profile.trace", "_enqueue_profile.trace"}) {
    expect(count(files, suffix) == engines, std::string("not every engine has a trace that ends in ") + suffix);
  }
  const std::string list = prefix + "/engines." + std::to_string(::getpid()) + ".json";
  expect(files.count(list) == 1, list + " was not written");
  const std::string timing = find<std::string()>("tensorrt::dump_engine_timing").call();
  expect(timing.find("\"layer\"") != std::string::npos, "dump_engine_timing() tells of no layer: " + timing);

  set_profiling(false, format, prefix);
  program.run("after profiling");
  expect(snapshot(prefix) == files, "traces were written after profiling was disabled");
  const auto [enabled, format_now, prefix_now, revisions] =
      find<std::tuple<bool, std::string, std::string, std::int64_t>()>("tensorrt::get_profiling_config").call();
  expect(!enabled && format_now == format && fs::equivalent(prefix_now, prefix) && revisions == 2,
         "the configuration that was read is not the one that was set");
  expect(!has_python(), "a Python has come into this process");

  std::ostringstream out;
  out << "{\"ok\": true, \"engines\": " << engines << ", \"files\": " << files.size()
      << ", \"largest_error\": " << program.largest_error() << ", \"pid\": " << ::getpid() << ", \"timing\": " << timing
      << "}";
  return out.str();
}

}  // namespace

int main(int count, char** words) {
  Arguments arguments;
  try {
    arguments = parse(count, words);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "profile_package: %s\n%s", error.what(), kUsage);
    return 2;
  }
  try {
    std::printf("%s\n", profile(arguments).c_str());
    return 0;
  } catch (const c10::Error& error) {
    std::printf("{\"ok\": false, \"error\": %s}\n", quoted(error.what_without_backtrace()).c_str());
  } catch (const std::exception& error) {
    std::printf("{\"ok\": false, \"error\": %s}\n", quoted(error.what()).c_str());
  }
  return 1;
}
