#pragma once

#include <memory>
#include <string>
#include <vector>

namespace torch {
class Library;
}

namespace torch_tensorrt::profiles {

// Throws where the operators are already somebody else's.
void check_operators_are_free();

// Defines our operators, where they are not defined yet. A definition is for good, because torch.ops keeps pointers to
// it: without kernels an operator raises, without its definition it would crash.
void define_operators();

// Puts our kernels under these operators, and over tensorrt::execute_engine, for as long as the result lives.
[[nodiscard]] std::vector<std::unique_ptr<torch::Library>> register_kernels();

}  // namespace torch_tensorrt::profiles
