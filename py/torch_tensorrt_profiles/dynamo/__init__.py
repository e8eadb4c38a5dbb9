"""Compile time: named profiles, what a program allows, and how the profiles reach TensorRT."""

from __future__ import annotations

from torch_tensorrt_profiles.dynamo._optimization_profile import OptimizationProfile

__all__ = ["OptimizationProfile"]
