"""What the contenders are called in results, tables and plots."""

TWO = "two named profiles"
ONE = "one profile, tuned for prefill"
ENGINES = "two engines"
CONTEXTS = "a context per profile"
ONNX = "decode-only engine from ONNX"
EAGER = "eager PyTorch"
COMPILED = "torch.compile max-autotune"
