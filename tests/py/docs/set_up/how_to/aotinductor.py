import os
import subprocess
import sys

import torch
from models import compile_language_model, tokens

program = compile_language_model()
one_id, one_position = tokens(1)
if torch.cuda.is_available():
    # As from a host without a GPU.
    build = "import torch_tensorrt, models; torch_tensorrt.save(models.compile_language_model(), 'program.pt2')"
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", build], env=environment, check=True)
