"""Profile names and ranges inside an engine's serialized metadata.

Torch-TensorRT's metadata is base64 of a pickle, and a reader stops at the pickle's end. Ours follows it:
``base64(pickle + MARK + JSON)``. Stock ignores the tail; we, and C++ (``core/runtime/profile_metadata.cpp``), read it
without unpickling anything.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any

MARK = b"\x00torch_tensorrt_profiles\x00"
SCHEMA = 1

#: A shape as (min, opt, max), each a tuple of extents.
ShapeRange = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True)
class EngineProfiles:
    """The profiles of one engine, in the order of their index.

    Attributes:
        names: one name per profile; ``""`` for a profile that was given none.
        ranges: per profile, the (min, opt, max) shape of each input binding.
    """

    names: tuple[str, ...]
    ranges: tuple[dict[str, ShapeRange], ...]

    def to_json(self) -> dict[str, Any]:
        """As plain data: lists, dicts, strings and integers only."""
        return {
            "schema": SCHEMA,
            "profiles": [
                {
                    "name": name,
                    "inputs": {
                        binding: {"min": list(low), "opt": list(opt), "max": list(high)}
                        for binding, (low, opt, high) in inputs.items()
                    },
                }
                for name, inputs in zip(self.names, self.ranges, strict=True)
            ],
        }

    @classmethod
    def from_json(cls, record: Any) -> EngineProfiles:
        """The inverse of :meth:`to_json`.

        Raises:
            ValueError: the record was written by a newer version or is damaged.
        """
        try:
            schema = record["schema"]
            if schema == SCHEMA:
                profiles = _of_type(list, record["profiles"])
                return cls(
                    tuple(_of_type(str, profile["name"]) for profile in profiles),
                    tuple({name: _range(shapes) for name, shapes in profile["inputs"].items()} for profile in profiles),
                )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"this engine's profile record is damaged ({error!r}); compile again") from error
        raise ValueError(
            f"this engine's profile record has schema {schema!r}, this version of torch-tensorrt-profiles reads "
            f"{SCHEMA}; load it with the version that wrote it, or compile again"
        )


def _of_type(expected: type, value: Any) -> Any:
    if not isinstance(value, expected) or isinstance(value, bool):
        raise TypeError(f"{value!r} is no {expected.__name__}")
    return value


def _range(shapes: Any) -> ShapeRange:
    low, opt, high = (
        tuple(_of_type(int, extent) for extent in _of_type(list, shapes[end])) for end in ("min", "opt", "max")
    )
    if not len(low) == len(opt) == len(high):
        raise TypeError(f"{shapes!r} is of several ranks")
    return low, opt, high


def append(encoded_metadata: str, profiles: EngineProfiles) -> str:
    """Torch-TensorRT's encoded metadata with our record behind it."""
    plain = base64.b64decode(encoded_metadata)
    record = json.dumps(profiles.to_json(), separators=(",", ":"), sort_keys=True).encode()
    return base64.b64encode(plain + MARK + record).decode()


def read(encoded_metadata: str) -> EngineProfiles | None:
    """Our record in an engine's encoded metadata, or None where there is none.

    Raises:
        ValueError: there is one, but of another schema or damaged.
    """
    _, mark, record = base64.b64decode(encoded_metadata).rpartition(MARK)
    if not mark:
        return None
    try:
        decoded = json.loads(record)
    except ValueError as error:
        raise ValueError(f"this engine's profile record is damaged ({error}); compile again") from error
    return EngineProfiles.from_json(decoded)
