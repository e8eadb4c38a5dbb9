import torch
from models import CACHE_LENGTH, CachedLanguageModel, on_device, tokens

model = on_device(CachedLanguageModel(positions=CACHE_LENGTH))
input_ids, position_ids = tokens(32)
cache = torch.zeros(1, CACHE_LENGTH, 16, device=input_ids.device)
