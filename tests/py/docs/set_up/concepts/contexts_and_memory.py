from models import compile_language_model, tokens
from torch_tensorrt.runtime import optimization_profile

program = compile_language_model()
one_id, one_position = tokens(1)
