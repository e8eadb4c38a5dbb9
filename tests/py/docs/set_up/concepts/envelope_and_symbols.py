import torch
import torch_tensorrt
from models import LanguageModel, on_device, tokens
from torch_tensorrt.dynamo import OptimizationProfile
from torch_tensorrt.runtime import optimization_profiles, profile_names

model = on_device(LanguageModel())
ids, positions = tokens(8)
