import torch
from models import Classifier, on_device
from programs import device

model = on_device(Classifier())
image = torch.randn(1, 3, 64, 64, device=device())
