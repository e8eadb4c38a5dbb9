import fake_torch_tensorrt  # noqa: F401  (before any test imports what needs Torch-TensorRT)
