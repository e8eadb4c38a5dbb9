import torch
from models import Ranker, on_device
from programs import device

model = on_device(Ranker())
features = torch.randn(8, 16, device=device())
