#include "core/runtime/profile_path.h"

#include <c10/util/Exception.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace torch_tensorrt::profiles {

namespace fs = std::filesystem;

std::string make_writable(const std::string& folder) {
  std::error_code error;
  if (fs::exists(folder, error) && !fs::is_directory(folder, error)) {
    return "it is a file, not a folder";
  }
  fs::create_directories(folder, error);
  if (error) {
    return "the folder cannot be made: " + error.message();
  }
  // Permission bits say nothing to root and on read-only file systems, so a file is really made.
  std::string probe = folder + "/.torchtrt_profiles.XXXXXX";
  const int descriptor = ::mkstemp(probe.data());
  if (descriptor < 0) {
    return "no file can be made in it: " + std::generic_category().message(errno);
  }
  ::close(descriptor);
  ::unlink(probe.c_str());
  return {};
}

std::string usable_trace_folder(const std::string& prefix) {
  static constexpr const char* kNextStep = " Give a folder that this process can write to.";
  TORCH_CHECK_VALUE(!prefix.empty(), "profile_path_prefix is empty.", kNextStep);
  TORCH_CHECK_VALUE(prefix.find('\0') == std::string::npos, "profile_path_prefix '",
                    prefix.substr(0, prefix.find('\0')), "' goes on after a NUL character, which no path can hold.",
                    kNextStep);
  std::error_code error;
  fs::path absolute = fs::absolute(prefix, error);
  TORCH_CHECK_VALUE(!error, "profile_path_prefix '", prefix, "' cannot be resolved: ", error.message(), ".", kNextStep);
  absolute = absolute.lexically_normal();
  if (!absolute.has_filename() && absolute.has_relative_path()) {  // "/a/b/" becomes "/a/b"
    absolute = absolute.parent_path();
  }
  const std::string problem = make_writable(absolute.string());
  TORCH_CHECK_VALUE(problem.empty(), "profile_path_prefix '", absolute.string(), "' cannot hold traces: ", problem, ".",
                    kNextStep);
  return absolute.string();
}

std::string default_trace_folder() {
  std::error_code error;
  const fs::path folder = fs::temp_directory_path(error);  // fails where TMPDIR names no folder
  return error ? "/tmp" : folder.string();
}

}  // namespace torch_tensorrt::profiles
