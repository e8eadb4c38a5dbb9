#pragma once

#include <ATen/core/stack.h>
#include <c10/core/DispatchKeySet.h>

namespace c10 {
class OperatorHandle;
}

namespace torch_tensorrt::profiles {

// tensorrt::execute_engine(Tensor[] input_tensors, Engine engine) -> Tensor[]: puts the engine in the state that it
// should be in, then calls Torch-TensorRT's own kernel, all under the engine's lock.
void execute_engine(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

}  // namespace torch_tensorrt::profiles
