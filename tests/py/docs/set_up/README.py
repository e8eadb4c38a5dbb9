import torch
import torch_tensorrt
from models import compile_language_model, export_language_model, package_inputs, tokens

ep = export_language_model()
one_id, one_pos = tokens(1)
inputs = tokens(100)
if torch.cuda.is_available():
    torch_tensorrt.save(compile_language_model(), "llm.pt2", output_format="aot_inductor", arg_inputs=package_inputs())
    aoti_runner = torch._inductor.aoti_load_package("llm.pt2")
