"""A directory of traces: which file belongs to which engine, process, rank and profile."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torch_tensorrt_profiles.report import _profiles
from torch_tensorrt_profiles.report._model import EngineTimes, ProfileTimes, Run, Skipped, with_labels
from torch_tensorrt_profiles.report._text_table import printable
from torch_tensorrt_profiles.report._traces import (
    INFORMATION_SUFFIX,
    LAYERS_SUFFIX,
    PHASE_SUFFIXES,
    EngineRecord,
    LayerTrace,
    TimingRow,
    TraceError,
    read_engine_list,
    read_layer_names,
    read_layer_trace,
    read_phase_trace,
    read_timings,
)

#: More than this is no trace directory but, say, somebody's home.
MAX_FILES = 20_000

_ENGINE_LIST = re.compile(r"engines\.(\d+)\.json")
_TIMINGS = re.compile(r"timing\.(\d+)\.json")
#: ``<engine>.<pid>[.r<rank>][.<n>]``, the folder of an engine that is not alone with its name.
_FOLDER = re.compile(r"\.(?P<pid>\d+)(?:\.r(?P<rank>\d+))?(?:\.\d+)?$")

TOLD_BY_RUN = (
    "Traces alone do not tell its profiles apart; 'torchtrtprof run' does, and so does the result of "
    "torch.ops.tensorrt.dump_engine_timing(), saved beside the traces as timing.<pid>.json."
)
NO_COUNTS = "The perfetto format does not tell how often a layer ran, so there is no mean; the trex format does."


class NoTracesError(ValueError):
    """There is nothing to report: no directory, or no usable trace in it. The message lists what was skipped."""


@dataclass
class _Files:
    """The files of one engine, by what they are."""

    name: str
    folder: Path
    layers: Path | None = None
    information: Path | None = None
    phases: dict[str, Path] = field(default_factory=dict)


@dataclass(frozen=True)
class _Owner:
    """What an engine list says of an engine, and where that list is."""

    pid: int
    record: EngineRecord
    list_file: Path
    folder: Path


def read_run(directory: Path, on_file: Callable[[Path], object] = lambda path: None) -> Run:
    """Reads every trace in a directory and below it.

    Args:
        directory: what profiling wrote to.
        on_file: called before each file is read, to show progress.

    Raises:
        NoTracesError: it is no directory, too large to be one of traces, or holds no usable trace.
    """
    return _Reader(directory, on_file).read()


def trace_files(directory: Path, on_problem: Callable[[OSError], object] = lambda error: None) -> list[Path]:
    """Every file in a directory of traces and below it, but for hidden ones; links are not followed.

    Args:
        on_problem: called for each directory inside of it that cannot be read.

    Raises:
        NoTracesError: it is no directory, cannot be read, or is too large.
    """
    if not directory.is_dir():
        what = "does not exist" if not directory.exists() else "is a file"
        raise NoTracesError(f"{directory} {what}; expected the directory that traces were written to")
    try:
        with os.scandir(directory):
            pass
    except OSError as error:
        raise NoTracesError(f"{directory} cannot be read: {error.strerror}") from None
    found: list[Path] = []
    for folder, folders, names in os.walk(directory, onerror=on_problem):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += [Path(folder, name) for name in sorted(names) if not name.startswith(".")]
        if len(found) > MAX_FILES:
            raise NoTracesError(f"{directory} holds more than {MAX_FILES} files; expected a directory of traces only")
    return found


class _Reader:
    def __init__(self, directory: Path, on_file: Callable[[Path], object]) -> None:
        self._given = directory
        self._directory = Path(os.path.abspath(directory))
        self._on_file = on_file
        self._skipped: list[Skipped] = []
        self._files: dict[tuple[Path, str], _Files] = {}
        self._owners: dict[tuple[Path, str], list[_Owner]] = {}
        self._timings: dict[tuple[Path, int], tuple[TimingRow, ...]] = {}

    def read(self) -> Run:
        for path in trace_files(self._directory, self._skip_folder):
            self._sort(path)
        engines = [engine for files in self._files.values() if (engine := self._engine(files)) is not None]
        self._report_missing()
        if not engines:
            raise NoTracesError(self._why_nothing())
        engines.sort(key=lambda e: (e.name, -1 if e.rank is None else e.rank, e.pid or 0, e.folder))
        return Run(self._given, with_labels(engines), tuple(self._skipped))

    def _sort(self, path: Path) -> None:
        """Puts a file where it belongs; the small files that tell about others are read at once."""
        name = path.name
        if (match := _ENGINE_LIST.fullmatch(name)) is not None:
            with self._skipping(path):
                self._take_engine_list(path, int(match[1]))
            return
        if (match := _TIMINGS.fullmatch(name)) is not None:
            with self._skipping(path):
                self._timings[path.parent, int(match[1])] = read_timings(path)
            return
        for suffix in (LAYERS_SUFFIX, INFORMATION_SUFFIX, *PHASE_SUFFIXES):
            if name.endswith(suffix) and name != suffix:
                engine = name.removesuffix(suffix)
                files = self._files.setdefault((path.parent, engine), _Files(engine, path.parent))
                if suffix == LAYERS_SUFFIX:
                    files.layers = path
                elif suffix == INFORMATION_SUFFIX:
                    files.information = path
                else:
                    files.phases[PHASE_SUFFIXES[suffix]] = path
                return
        self._skip(path, "is no file that profiling writes")

    def _take_engine_list(self, path: Path, pid: int) -> None:
        written_by, records = read_engine_list(path)
        if written_by != pid:
            raise TraceError(f"is called after process {pid}, but holds process {written_by}")
        for record in records:
            folder = Path(os.path.normpath(path.parent / record.folder))
            if not folder.is_relative_to(path.parent):
                raise TraceError(f"engine {record.name!r}: folder {record.folder!r} leads out of the directory")
            owner = _Owner(pid, record, path, folder)
            self._owners.setdefault((folder, record.name), []).append(owner)

    def _engine(self, files: _Files) -> EngineTimes | None:
        names: tuple[str, ...] = ()
        if files.information is not None:
            with self._skipping(files.information):
                names = read_layer_names(files.information)
        trace: LayerTrace | None = None
        if files.layers is not None:
            with self._skipping(files.layers):
                trace = read_layer_trace(files.layers)
        phases = {}
        for phase in PHASE_SUFFIXES.values():
            if phase in files.phases:
                with self._skipping(files.phases[phase]):
                    phases[phase] = read_phase_trace(files.phases[phase])
        owner = self._owner(files, trace)
        profile_names = owner.record.profile_names if owner else ()
        rows = self._rows_of(owner)
        if rows:
            profiles = _profiles.from_timings(rows, profile_names)
        elif trace is not None:
            profiles = _profiles.from_trace(trace.layers, profile_names, names)
        else:
            if files.layers is None:
                for path in (files.information, *files.phases.values()):
                    if path is not None:
                        self._skip(path, f"has no {files.name}{LAYERS_SUFFIX} beside it")
            return None
        pid, rank, prefix = _told_by_folder(files.folder, trace)
        device = None
        if owner is not None:
            pid, rank, device = owner.pid, owner.record.rank, owner.record.device
            prefix = owner.list_file.parent
        return EngineTimes(
            name=files.name,
            folder=str(files.folder.relative_to(self._directory)),
            # That of a folder which is read alone is outside of it.
            prefix=str(prefix.relative_to(self._directory)) if prefix.is_relative_to(self._directory) else ".",
            format=trace.format if trace is not None else owner.record.format if owner is not None else "",
            pid=pid,
            rank=rank,
            device=device,
            profile_names=profile_names,
            profiles=profiles,
            phases=phases,
            remarks=tuple(_remarks(trace, profiles, profile_names, has_timings=bool(rows))),
        )

    def _owner(self, files: _Files, trace: LayerTrace | None) -> _Owner | None:
        """Who wrote these files: of several processes that had the place in turn, the one whose traces are there."""
        owners = self._owners.get((files.folder, files.name), [])
        kept: _Owner | None = None
        if trace is not None and trace.pid is not None:
            kept = next((owner for owner in owners if owner.pid == trace.pid), None)
        elif owners:  # the trex format does not carry the process
            kept = max(owners, key=lambda owner: owner.list_file.stat().st_mtime_ns)
        for owner in owners:
            if owner is not kept:
                process = kept.pid if kept is not None else trace.pid if trace is not None else None
                self._skip(owner.list_file, f"engine {files.name!r}: its traces were replaced by process {process}")
        return kept

    def _rows_of(self, owner: _Owner | None) -> list[TimingRow]:
        if owner is None:
            return []
        same_object = [
            other
            for owners in self._owners.values()
            for other in owners
            if other.list_file == owner.list_file and other.record.object_id == owner.record.object_id
        ]
        if len(same_object) > 1:  # an address that was used again: nothing says whose time it is
            return []
        # Containers and hosts have processes of the same number: only the file beside the list is this one's.
        rows = self._timings.get((owner.list_file.parent, owner.pid), ())
        return [row for row in rows if row.object_id == owner.record.object_id]

    def _report_missing(self) -> None:
        for (folder, name), owners in self._owners.items():
            if (folder, name) not in self._files:
                self._skip(
                    owners[0].list_file, f"engine {name!r}: there are no traces of it in {owners[0].record.folder!r}"
                )

    def _skip_folder(self, error: OSError) -> None:
        self._skip(Path(error.filename), f"cannot be read: {error.strerror}")

    def _skip(self, path: Path, reason: str) -> None:
        self._skipped.append(Skipped(str(path.relative_to(self._directory)), reason))

    @contextlib.contextmanager
    def _skipping(self, path: Path) -> Iterator[None]:
        self._on_file(path)
        try:
            yield
        except TraceError as error:
            self._skip(path, str(error))

    def _why_nothing(self) -> str:
        if not self._skipped:
            return f"{self._given} is empty; expected the traces of a profiled run"
        shown = "".join(f"\n  {printable(entry.path)}: {printable(entry.reason)}" for entry in self._skipped[:10])
        more = f"\n  and {len(self._skipped) - 10} more" if len(self._skipped) > 10 else ""
        return f"{self._given} holds no usable layer trace (<engine>{LAYERS_SUFFIX}). Skipped:{shown}{more}"


def _told_by_folder(folder: Path, trace: LayerTrace | None) -> tuple[int | None, int | None, Path]:
    """Process, rank and prefix of an engine that no list tells of."""
    match = _FOLDER.search(folder.name)
    pid = int(match["pid"]) if match else None
    if trace is not None and trace.pid is not None:
        pid = trace.pid
    return pid, int(match["rank"]) if match and match["rank"] else None, folder.parent if match else folder


def _remarks(
    trace: LayerTrace | None, profiles: Sequence[ProfileTimes], profile_names: Sequence[str], *, has_timings: bool
) -> Iterator[str]:
    if any(profile.index is None for profile in profiles) and not has_timings:
        yield f"It has {len(profile_names)} optimization profiles. {TOLD_BY_RUN}"
    if trace is None:
        return
    if trace.format == "perfetto" and not has_timings and trace.layers:
        yield NO_COUNTS
    if not trace.layers:
        yield "Its trace names no layer: no call was profiled, or the calls replayed a CUDA graph."
