import torch
import torch_tensorrt
from models import compile_language_model, tokens

if torch.cuda.is_available():
    program = compile_language_model()
    ids, positions = tokens(100)
