#pragma once

#include <string>

namespace torch_tensorrt::profiles {

// The absolute form of a trace folder that a user asked for. Makes the folder and tries to write into it; throws
// ValueError where that fails, where the path is empty, holds a NUL, or names something that is no folder.
[[nodiscard]] std::string usable_trace_folder(const std::string& prefix);

// Makes the folder if it is not there and proves that a file can be made in it. Returns what went wrong, "" for
// nothing.
[[nodiscard]] std::string make_writable(const std::string& folder);

// The system's folder for temporary files: where traces go unless told otherwise.
[[nodiscard]] std::string default_trace_folder();

}  // namespace torch_tensorrt::profiles
