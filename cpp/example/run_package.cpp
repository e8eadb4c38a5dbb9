// Runs an AOTInductor package under one of its optimization profiles, in a process without Python, and has its engines
// write traces:
//
//   run_package LIBTORCHTRT PACKAGE PROFILE FOLDER INPUT...
//   run_package .../libtorchtrt_runtime.so llm.pt2 decode traces int64:1x1 int64:1x1
//
// Then `torchtrtprof report traces` shows where the time goes.
#include <ATen/ATen.h>
#include <dlfcn.h>
#include <torch/cuda.h>
#include <torch_tensorrt/profiles.h>

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

namespace {

namespace profiles = torch_tensorrt::profiles;

// "int64:1x128": zeros on the GPU.
at::Tensor make_input(const std::string& text) {
  const std::size_t colon = text.find(':');
  const std::string dtype = text.substr(0, colon);
  const c10::ScalarType type = dtype == "int64"     ? c10::kLong
                               : dtype == "int32"   ? c10::kInt
                               : dtype == "float16" ? c10::kHalf
                               : dtype == "float32" ? c10::kFloat
                                                    : c10::ScalarType::Undefined;
  if (colon == std::string::npos || type == c10::ScalarType::Undefined) {
    throw std::invalid_argument("'" + text +
                                "' is no input; expected int64, int32, float16 or float32, and a shape, "
                                "such as int64:1x128");
  }
  std::vector<std::int64_t> shape;
  for (std::size_t at = colon + 1; at < text.size();) {
    std::size_t length = 0;
    shape.push_back(std::stoll(text.substr(at), &length));
    at += length + 1;
  }
  return at::zeros(shape, at::TensorOptions().dtype(type).device(at::kCUDA));
}

std::string text_of(const std::vector<std::int64_t>& shape) {
  std::string out;
  for (const std::int64_t extent : shape) {
    out += (out.empty() ? "" : "x") + std::to_string(extent);
  }
  return out;
}

void print_profiles(const torch::inductor::AOTIModelPackageLoader& package) {
  for (const profiles::EngineHandle& engine : profiles::engines_of(package)) {
    std::printf("engine %s\n", engine.name().c_str());
    std::int64_t index = 0;
    for (const profiles::Profile& profile : engine.profiles()) {
      std::printf("  profile %lld %s\n", static_cast<long long>(index++), profile.name.c_str());
      for (const auto& [input, range] : profile.inputs) {
        std::printf("    %s: %s to %s, best at %s\n", input.c_str(), text_of(range.min).c_str(),
                    text_of(range.max).c_str(), text_of(range.opt).c_str());
      }
    }
  }
}

void run(const std::string& torch_tensorrt, const std::string& path, const std::string& profile,
         const std::string& folder, const std::vector<std::string>& inputs) {
  if (!torch::cuda::is_available()) {
    throw std::runtime_error("torch finds no CUDA device on this host");
  }
  // A program may as well link with Torch-TensorRT's library.
  if (::dlopen(torch_tensorrt.c_str(), RTLD_NOW) == nullptr) {
    throw std::runtime_error(std::string("cannot load Torch-TensorRT: ") + ::dlerror());
  }
  profiles::activate();

  torch::inductor::AOTIModelPackageLoader package(path);
  print_profiles(package);
  std::vector<at::Tensor> tensors;
  for (const std::string& input : inputs) {
    tensors.push_back(make_input(input));
  }

  const profiles::OptimizationProfileGuard selected(package, profile);
  package.run(tensors);  // warm
  {
    const profiles::ProfilingGuard profiling({.enabled = true, .path_prefix = folder});
    for (int call = 0; call < 10; ++call) {
      package.run(tensors);
    }
    std::printf("timing %s", profiles::engine_timing().c_str());
  }
  const std::vector<at::Tensor> outputs = package.run(tensors);  // not profiled any more
  torch::cuda::synchronize();
  for (const at::Tensor& output : outputs) {
    std::printf("output %s\n", text_of(output.sizes().vec()).c_str());
  }
  std::printf("traces are in %s\n", folder.c_str());
}

}  // namespace

int main(int count, char** words) {
  const std::vector<std::string> arguments(words + 1, words + count);
  if (arguments.size() < 5) {
    std::fprintf(stderr, "usage: run_package LIBTORCHTRT PACKAGE PROFILE FOLDER INPUT...\n");
    return 2;
  }
  try {
    run(arguments[0], arguments[1], arguments[2], arguments[3], {arguments.begin() + 4, arguments.end()});
  } catch (const c10::Error& error) {
    std::fprintf(stderr, "run_package: %s\n", error.what_without_backtrace());
    return 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "run_package: %s\n", error.what());
    return 1;
  }
  return 0;
}
