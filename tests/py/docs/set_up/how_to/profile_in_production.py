import torch
from models import compile_language_model, tokens

if torch.cuda.is_available():
    program = compile_language_model()
    prompt, positions = tokens(100)
