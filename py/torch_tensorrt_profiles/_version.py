"""The one place that states our version and the versions of torch and Torch-TensorRT that we work with."""

__version__ = "0.1.0"

#: The release series of torch and of Torch-TensorRT (torch-tensorrt or torch-tensorrt-rtx) that this release extends.
SUPPORTED_SERIES = "2.14"


def in_supported_series(version: str) -> bool:
    """Whether a torch or Torch-TensorRT version string belongs to :data:`SUPPORTED_SERIES`."""
    return version.split("+")[0].split(".")[:2] == SUPPORTED_SERIES.split(".")
