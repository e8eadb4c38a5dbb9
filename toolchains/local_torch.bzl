"""The installed torch package as a repository: its headers, c10 and torch_cpu. No CUDA toolkit is needed."""

_FIND = "import importlib.util as u, os; print(os.path.dirname(u.find_spec('torch').origin))"

_BUILD = """
load("@rules_cc//cc:defs.bzl", "cc_library")

package(default_visibility = ["//visibility:public"])

# By their place, not as inputs: torch_cpu finds the CUDA libraries that it needs relative to itself.
cc_library(
    name = "libtorch",
    hdrs = glob(["include/**"]),
    includes = ["include", "include/torch/csrc/api/include"],
    linkopts = ["-L{lib}", "-ltorch_cpu", "-lc10"],
)

# For programs, which start without a torch in the process.
cc_library(
    name = "found_at_run_time",
    linkopts = ["-Wl,-rpath,{lib}"],
    deps = [":libtorch"],
)

# No program names a symbol of torch_cuda, so the linker would leave it out.
cc_library(
    name = "cuda",
    linkopts = ["-Wl,--no-as-needed", "-Wl,--allow-shlib-undefined", "-ltorch", "-lc10_cuda", "-ltorch_cuda"],
    deps = [":found_at_run_time"],
)
"""

def _local_torch(ctx):
    folder = ctx.os.environ.get("TORCH_DIR")
    if not folder:
        python = ctx.path(str(ctx.path(Label("//:WORKSPACE")).dirname) + "/.venv/bin/python")
        if not python.exists:
            python = ctx.which("python3")
        found = ctx.execute([python, "-c", _FIND])
        if found.return_code:
            fail("%s has no torch. Pass --repo_env=TORCH_DIR=<folder of the torch package>." % python)
        folder = found.stdout.strip()
    if not ctx.path(folder + "/include/torch/library.h").exists:
        fail("TORCH_DIR=%s is not the folder of a torch package: it has no include/torch/library.h" % folder)
    ctx.symlink(folder + "/include", "include")
    ctx.file("BUILD", _BUILD.format(lib = folder + "/lib"))

local_torch = repository_rule(implementation = _local_torch, environ = ["TORCH_DIR"], local = True)
