import torch
import torch_tensorrt
from models import LanguageModel, export_language_model, on_device, tokens
from torch.export import Dim
from torch_tensorrt.dynamo import OptimizationProfile
from torch_tensorrt.runtime import optimization_profile, profile_names

model = on_device(LanguageModel())
exported_program = export_language_model()
ids, positions = tokens(8)
one_id, one_position = tokens(1)
