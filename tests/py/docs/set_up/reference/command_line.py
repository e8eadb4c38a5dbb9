import os
from pathlib import Path

import torch
from models import compile_language_model, tokens
from torch_tensorrt.runtime import profile_execution

program = compile_language_model()
inputs = tokens(100)
