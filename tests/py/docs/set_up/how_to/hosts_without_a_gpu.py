from models import export_language_model, tokens
from torch_tensorrt.dynamo import OptimizationProfile

exported_program = export_language_model()
prefill = OptimizationProfile("prefill", {"input_ids": {1: (2, 1024, 2048)}})
decode = OptimizationProfile("decode", {"input_ids": {1: 1}})
prompt, positions = tokens(100)
