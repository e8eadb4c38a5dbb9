from models import compile_language_model, tokens
from torch_tensorrt.runtime import optimization_profile

program = compile_language_model(min_block_size=1, torch_executed_ops={"torch.ops.aten.relu.default"})
prompt, positions = tokens(100)
one_id, one_position = tokens(1)
