import torch
import torch_tensorrt
