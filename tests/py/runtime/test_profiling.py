"""The process-wide profiling configuration from Python, and loading the library; no engine runs here."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
import torch_tensorrt
from torch_tensorrt.runtime import get_profiling, profile_execution, set_profiling
from torch_tensorrt_profiles._library import LIBRARY

ops = torch.ops.tensorrt

SETTERS = {
    "format": (ops.set_profile_format, ops.get_profile_format),
    "prefix": (ops.set_profile_path_prefix, ops.get_profile_path_prefix),
    "execution": (ops.set_profile_execution, ops.get_profile_execution),
}


@pytest.fixture(autouse=True)
def configuration(tmp_path):
    """Starts each test off, with the defaults, and leaves the process as it was."""
    before = get_profiling()
    set_profiling(False, format="perfetto", path_prefix=tmp_path)
    try:
        yield
    finally:
        set_profiling(before.enabled, format=before.format, path_prefix=before.path_prefix)


def run_python(code: str, *arguments: object, **environment: str) -> dict[str, object]:
    """Runs ``code`` in a process of its own, which must end well, and returns what it hands to ``report``."""
    prelude = "import json\ndef report(**values): print('REPORT' + json.dumps(values))\n"
    done = subprocess.run(
        [sys.executable, "-c", prelude + code, *map(str, arguments)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("REPORT")]
    return {**json.loads(line[len("REPORT") :]), "stderr": done.stderr}


class TestOperators:
    def test_defaults(self, tmp_path):
        seen = run_python(
            "import torch, torch_tensorrt, tempfile\nops = torch.ops.tensorrt\n"
            "report(all=list(ops.get_profiling_config()), each=[ops.get_profile_execution(), ops.get_profile_format(),"
            " ops.get_profile_path_prefix(), ops.get_profile_generation()], temporary=tempfile.gettempdir())",
            TMPDIR=str(tmp_path),
        )
        assert seen["all"] == seen["each"] == [False, "perfetto", str(tmp_path), 0]
        assert seen["temporary"] == str(tmp_path)

    def test_each_setter_changes_one_field_and_adds_one(self, tmp_path):
        prefix = str(tmp_path / "traces")
        start = ops.get_profile_generation()
        ops.set_profile_path_prefix(prefix)
        assert ops.get_profiling_config() == (False, "perfetto", prefix, start + 1)
        ops.set_profile_format("trex")
        assert ops.get_profiling_config() == (False, "trex", prefix, start + 2)
        ops.set_profile_execution(True)
        assert ops.get_profiling_config() == (True, "trex", prefix, start + 3)
        assert (ops.get_profile_execution(), ops.get_profile_format()) == (True, "trex")
        assert (ops.get_profile_path_prefix(), ops.get_profile_generation()) == (prefix, start + 3)
        ops.set_profile_execution(True)  # no other value, yet a revision
        assert ops.get_profile_generation() == start + 4
        ops.set_profiling_config(False, "perfetto", prefix)
        assert ops.get_profiling_config() == (False, "perfetto", prefix, start + 5)

    def test_a_relative_prefix_is_resolved_when_it_is_set(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        ops.set_profile_path_prefix("one/./two/../three/")
        monkeypatch.chdir("/")
        assert ops.get_profile_path_prefix() == str(tmp_path / "one" / "three")
        assert (tmp_path / "one" / "three").is_dir()
        assert list((tmp_path / "one" / "three").iterdir()) == []

    def test_torchscript_leaves_no_setter_out(self):
        def configure(prefix: str) -> str:
            torch.ops.tensorrt.set_profile_format("trex")
            before = torch.ops.tensorrt.get_profile_format()
            torch.ops.tensorrt.set_profile_format("perfetto")
            torch.ops.tensorrt.set_profile_path_prefix(prefix)
            return before + " " + torch.ops.tensorrt.get_profile_format()

        start = ops.get_profile_generation()
        assert torch.jit.script(configure)(ops.get_profile_path_prefix()) == "trex perfetto"
        assert ops.get_profile_generation() == start + 3

    def test_nothing_profiled_is_an_empty_report(self):
        seen = run_python("import torch, torch_tensorrt\nreport(timing=torch.ops.tensorrt.dump_engine_timing())")
        assert json.loads(seen["timing"]) == []


BAD = {
    "unknown format": ("format", "chrome", r"'chrome'.*'perfetto'.*'trex'"),
    "empty format": ("format", "", r"''.*'perfetto'.*'trex'"),
    "format in capitals": ("format", "Perfetto", r"'Perfetto'.*'perfetto'.*'trex'"),
    "format that is no string": ("format", 3, "str"),
    "no format": ("format", None, "str"),
    "empty prefix": ("prefix", "", "empty"),
    "prefix that is a file": ("prefix", "FILE", "cannot hold traces"),
    "prefix below a file": ("prefix", "FILE/below", "cannot hold traces"),
    "prefix without write permission": ("prefix", "/proc/torchtrt_profiles", "cannot hold traces"),
    "prefix with a NUL": ("prefix", "FOLDER/a\0b", "NUL"),
    "prefix that is no string": ("prefix", 3, "str"),
    "prefix that is a path object": ("prefix", Path("/tmp"), "str"),
    "no prefix": ("prefix", None, "str"),
    "execution that is no boolean": ("execution", "yes", "bool"),
}


class TestBadInput:
    @pytest.mark.parametrize("case", BAD)
    def test_changes_nothing(self, case, tmp_path):
        field, value, message = BAD[case]
        (tmp_path / "file").touch()
        if isinstance(value, str):
            value = value.replace("FILE", str(tmp_path / "file")).replace("FOLDER", str(tmp_path))
        before = ops.get_profiling_config()
        content = sorted(tmp_path.iterdir())
        with pytest.raises((ValueError, RuntimeError), match=message):
            SETTERS[field][0](value)
        assert ops.get_profiling_config() == before
        assert sorted(tmp_path.iterdir()) == content

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
    def test_a_folder_that_others_own(self, tmp_path):
        (tmp_path / "closed").mkdir(mode=0o500)
        before = ops.get_profiling_config()
        with pytest.raises(ValueError, match="cannot hold traces"):
            ops.set_profile_path_prefix(str(tmp_path / "closed"))
        assert ops.get_profiling_config() == before

    @pytest.mark.parametrize(("format", "prefix"), [("chrome", "FOLDER/new"), ("trex", "/proc/torchtrt_profiles")])
    def test_all_or_nothing(self, format, prefix, tmp_path):
        before = ops.get_profiling_config()
        with pytest.raises(ValueError, match="profile_"):
            ops.set_profiling_config(True, format, prefix.replace("FOLDER", str(tmp_path)))
        assert ops.get_profiling_config() == before
        assert not (tmp_path / "new").exists()


class TestThreads:
    def test_generation_rises_by_the_number_of_successful_sets(self, tmp_path):
        start = ops.get_profile_generation()
        barrier = threading.Barrier(8)
        successes = [0] * 8

        def change(number: int) -> None:
            prefix = str(tmp_path / str(number))
            attempts = [
                lambda: ops.set_profile_execution(True),
                lambda: ops.set_profile_format("chrome"),
                lambda: ops.set_profile_format("trex"),
                lambda: ops.set_profile_path_prefix(prefix),
                lambda: ops.set_profile_path_prefix(""),
                lambda: ops.set_profiling_config(False, "perfetto", prefix),
            ]
            barrier.wait()
            for i in range(300):
                try:
                    attempts[(i + number) % len(attempts)]()
                    successes[number] += 1
                except ValueError:
                    pass

        threads = [threading.Thread(target=change, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert successes == [200] * 8
        assert ops.get_profile_generation() - start == sum(successes)

    def test_a_snapshot_is_of_one_revision(self, tmp_path):
        """Never the path of one revision with the format of another."""
        revisions = [(True, "perfetto", str(tmp_path / "perfetto")), (False, "trex", str(tmp_path / "trex"))]
        ops.set_profiling_config(*revisions[0])
        stop, torn, read = threading.Event(), [], [0] * 4

        def look(number: int) -> None:
            last = 0
            while not stop.is_set():
                *config, generation = ops.get_profiling_config()
                if tuple(config) not in revisions or generation < last:
                    torn.append((config, generation, last))
                last = generation
                read[number] += 1

        threads = [threading.Thread(target=look, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for i in range(1000):
            ops.set_profiling_config(*revisions[i % 2])
        stop.set()
        for thread in threads:
            thread.join()
        assert torn == []
        assert min(read) > 0


class TestSugar:
    def test_set_and_get(self, tmp_path):
        before = get_profiling()
        now = set_profiling(True, format="trex", path_prefix=tmp_path / "traces")
        assert now == get_profiling() == (True, "trex", str(tmp_path / "traces"), before.generation + 1)
        assert (now.enabled, now.format, now.path_prefix, now.generation) == now
        # What is not given stays.
        assert set_profiling(False) == (False, "trex", str(tmp_path / "traces"), before.generation + 2)
        assert set_profiling(True, format="perfetto")[:3] == (True, "perfetto", str(tmp_path / "traces"))

    def test_a_folder_in_place_of_the_switch(self, tmp_path):
        before = get_profiling()
        with pytest.raises(TypeError, match=r"enabled has to be True or False, found 'traces'.*path_prefix="):
            set_profiling("traces")  # type: ignore[arg-type]
        assert get_profiling() == before

    @pytest.mark.parametrize("bad", [{"format": "chrome"}, {"path_prefix": ""}, {"path_prefix": "/proc/nowhere"}])
    def test_an_error_changes_nothing(self, bad):
        before = get_profiling()
        with pytest.raises(ValueError, match="profile_"):
            set_profiling(True, **bad)
        assert get_profiling() == before

    def test_profile_execution_restores_everything(self, tmp_path):
        before = set_profiling(False, format="trex", path_prefix=tmp_path / "before")
        with profile_execution(tmp_path / "during") as during:
            assert get_profiling() == during == (True, "perfetto", str(tmp_path / "during"), before.generation + 1)
            set_profiling(False, format="trex")
        assert get_profiling()[:3] == before[:3]
        assert get_profiling().generation > during.generation

    def test_profile_execution_restores_what_was_on(self, tmp_path):
        before = set_profiling(True, format="trex", path_prefix=tmp_path / "before")
        with profile_execution(tmp_path / "during", format="trex"):
            pass
        assert get_profiling()[:3] == before[:3]

    def test_profile_execution_restores_after_an_exception(self, tmp_path):
        before = get_profiling()
        with pytest.raises(ZeroDivisionError), profile_execution(tmp_path / "during"):
            1 / 0
        assert get_profiling()[:3] == before[:3]

    def test_profile_execution_nests(self, tmp_path):
        before = get_profiling()
        with profile_execution(tmp_path / "outer") as outer:
            with profile_execution(tmp_path / "inner", format="trex") as inner:
                assert inner[:3] == (True, "trex", str(tmp_path / "inner"))
            assert get_profiling()[:3] == outer[:3]
        assert get_profiling()[:3] == before[:3]

    @pytest.mark.parametrize("bad", [("FOLDER", "chrome"), ("", "trex"), ("/proc/nowhere", "trex")])
    def test_profile_execution_with_bad_input_runs_nothing(self, bad, tmp_path):
        before = get_profiling()
        path, format = bad[0].replace("FOLDER", str(tmp_path)), bad[1]
        ran = False
        with pytest.raises(ValueError, match="profile_"), profile_execution(path, format):
            ran = True
        assert not ran
        assert get_profiling()[:3] == before[:3]

    @pytest.mark.parametrize("function", [get_profiling, set_profiling, profile_execution])
    def test_the_scope_stands_first_in_the_documentation(self, function):
        first_sentence = function.__doc__.strip().split(".")[0]
        assert "every engine in the process" in first_sentence.replace("*", "")

    def test_names(self):
        assert torch_tensorrt.runtime.set_profiling is set_profiling
        assert set_profiling.__module__.startswith("torch_tensorrt_profiles")


#: Lets stock Torch-TensorRT be imported on a host without a GPU.
ANSWER_CUDA = """
import torch
if not torch.cuda.is_available():
    torch.cuda.get_device_capability = lambda *a: (9, 0)
    torch.cuda.current_device = lambda *a: 0
"""

LOAD = """
import ctypes, sys
def activate(path):
    library = ctypes.CDLL(path)
    library.torchtrt_profiles_activate.restype = ctypes.c_char_p
    message = library.torchtrt_profiles_activate()
    return None if message is None else message.decode()
def operators(): return hasattr(torch.ops.tensorrt, "set_profile_execution")
"""


class TestLoading:
    def test_a_python_only_build_stays_stock(self):
        code = (
            """
import os
is_file = os.path.isfile
os.path.isfile = lambda path: "libtorchtrt" not in str(path) and is_file(path)
"""
            + ANSWER_CUDA
            + """
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import torch_tensorrt
os.path.isfile = is_file
import inspect, sys
import torch_tensorrt_profiles
def state():
    return dict(
        active=torch_tensorrt_profiles.is_active(),
        operators=hasattr(torch.ops.tensorrt, "set_profile_execution"),
        grafted="optimization_profiles" in inspect.signature(torch_tensorrt.dynamo.compile).parameters,
        added=[n for n in ("set_profiling", "profile_names") if hasattr(torch_tensorrt.runtime, n)],
        finders=[1 for f in sys.meta_path if "torch_tensorrt_profiles" in type(f).__module__],
        kernel=torch._C._dispatch_has_kernel_for_dispatch_key("tensorrt::execute_engine", "CUDA"),
    )
first = state()
try:
    torch_tensorrt_profiles.activate()
    raised = None
except torch_tensorrt_profiles.ActivationError as error:
    raised = str(error)
report(first=first, then=state(), raised=raised, works=list(torch_tensorrt.Input((1, 2)).shape),
       runtime=torch_tensorrt.ENABLED_FEATURES.torch_tensorrt_runtime,
       warnings=[str(w.message) for w in caught if "torch-tensorrt-profiles" in str(w.message)])
"""
        )
        seen = run_python(code)
        assert seen["runtime"] is False
        stock = {"active": False, "operators": False, "grafted": False, "added": [], "finders": [], "kernel": False}
        assert seen["first"] == seen["then"] == stock
        assert seen["works"] == [1, 2]
        said = seen["stderr"] + " ".join(seen["warnings"])
        assert "Python-only build of Torch-TensorRT" in said
        assert "Python-only build of Torch-TensorRT" in seen["raised"]

    def test_before_the_engine_class_exists(self):
        """An error, never an abort; and the next attempt, with the class there, succeeds."""
        code = (
            ANSWER_CUDA
            + LOAD
            + """
early = activate(sys.argv[1])
without = operators()
import torch_tensorrt
still = operators()
late = activate(sys.argv[1])
report(early=early, without=without, still=still, late=late, config=list(torch.ops.tensorrt.get_profiling_config()))
"""
        )
        seen = run_python(code, LIBRARY, TORCHTRT_PROFILES="0")
        assert "tensorrt.Engine is not registered" in seen["early"]
        assert "import torch_tensorrt" in seen["early"]
        assert not seen["without"]
        assert not seen["still"]
        assert seen["late"] is None
        assert seen["config"][0] is False

    def test_twice_from_one_path(self):
        code = (
            "import torch, torch_tensorrt\n"
            + LOAD
            + """
torch.ops.tensorrt.set_profile_execution(True)
report(again=activate(sys.argv[1]), config=list(torch.ops.tensorrt.get_profiling_config()))
"""
        )
        seen = run_python(code, LIBRARY)
        assert seen["again"] is None
        assert (seen["config"][0], seen["config"][3]) == (True, 1)

    def test_from_two_paths(self, tmp_path):
        copy = tmp_path / "elsewhere" / LIBRARY.name
        copy.parent.mkdir()
        shutil.copy(LIBRARY, copy)
        code = (
            "import torch, torch_tensorrt\n"
            + LOAD
            + """
torch.ops.tensorrt.set_profile_execution(True)
second = activate(sys.argv[1])
config = list(torch.ops.tensorrt.get_profiling_config())
import torch_tensorrt_profiles
torch_tensorrt_profiles.deactivate()
report(second=second, config=config, alone=activate(sys.argv[1]), new=list(torch.ops.tensorrt.get_profiling_config()))
"""
        )
        seen = run_python(code, copy)
        assert str(copy) in seen["second"]
        assert str(LIBRARY) in seen["second"] or str(LIBRARY.resolve()) in seen["second"]
        assert "another copy" in seen["second"]
        assert (seen["config"][0], seen["config"][3]) == (True, 1)
        # With the first out of the way, the second is as good.
        assert seen["alone"] is None
        assert (seen["new"][0], seen["new"][3]) == (False, 0)
