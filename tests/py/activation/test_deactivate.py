"""deactivate() leaves what a process that never activated has."""

from __future__ import annotations

SNAPSHOT = """
import sys, types
def describe(value):
    if isinstance(value, (types.FunctionType, type, types.ModuleType, types.BuiltinFunctionType)):
        name = getattr(value, '__qualname__', value.__name__)
        return f"{type(value).__name__}:{getattr(value, '__module__', None)}.{name}"
    if isinstance(value, (staticmethod, classmethod)):
        return f"{type(value).__name__}({describe(value.__func__)})"
    if isinstance(value, property):
        return f"property({describe(value.fget)})" if isinstance(value.fget, types.FunctionType) else "property"
    return type(value).__name__
def file_of(value):
    value = getattr(value, "__func__", value)
    return getattr(getattr(value, "__code__", None), "co_filename", "")
def snapshot():
    seen = {}
    owners = {}
    for name, module in sorted(sys.modules.items()):
        if name.split(".")[0] == "torch_tensorrt" and isinstance(module, types.ModuleType):
            owners[name] = module
            for key, value in vars(module).items():
                if isinstance(value, type) and value.__module__.split(".")[0] == "torch_tensorrt":
                    owners[f"{value.__module__}:{value.__qualname__}"] = value
    import torch
    owners["torch.fx.GraphModule"] = torch.fx.GraphModule
    for owner, thing in owners.items():
        for key, value in vars(thing).items():
            if key.startswith("__") and key not in ("__init__", "__enter__", "__exit__") or key == "_abc_impl": continue
            assert "torch_tensorrt_profiles" not in file_of(value) or OURS_ALLOWED, (owner, key)
            seen[f"{owner}.{key}"] = describe(value)
    return seen
OURS_ALLOWED = False
"""


def test_after_deactivate_equals_a_process_that_is_switched_off(run_python, answer_cuda):
    stock = run_python(
        answer_cuda + "import torch_tensorrt\n" + SNAPSHOT + "report(seen=snapshot())", TORCHTRT_PROFILES="0"
    ).values["seen"]
    code = (
        "import torch_tensorrt, torch_tensorrt_profiles\n"
        + SNAPSHOT
        + """
OURS_ALLOWED = True
before = snapshot()
assert any(value.startswith("function:torch_tensorrt_profiles") for value in before.values())
OURS_ALLOWED = False
torch_tensorrt_profiles.deactivate()
import torch
try:
    torch.ops.tensorrt.set_profile_execution(True)
    raised = False
except (NotImplementedError, RuntimeError):
    raised = True
report(seen=snapshot(), raised=raised, active=torch_tensorrt_profiles.is_active(),
       finders=[type(f).__module__ for f in sys.meta_path if "torch_tensorrt_profiles" in type(f).__module__],
       kernel=torch._C._dispatch_has_kernel_for_dispatch_key("tensorrt::execute_engine", "CUDA"))
"""
    )
    seen = run_python(answer_cuda + code).values
    assert seen["seen"] == stock
    assert seen["finders"] == []
    assert not seen["active"]
    assert seen["raised"]
    assert not seen["kernel"]


def test_late_activation_is_undone_by_identity(run_python, answer_cuda):
    code = (
        answer_cuda
        + """
import torch_tensorrt
import sys, types, torch
def identities():
    seen = {}
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] == "torch_tensorrt" and isinstance(module, types.ModuleType):
            for key, value in vars(module).items():
                seen[name, key] = id(value)
                if isinstance(value, type) and value.__module__.split(".")[0] == "torch_tensorrt":
                    for attribute, member in vars(value).items():
                        seen[value, attribute] = id(member)
    for attribute, member in vars(torch.fx.GraphModule).items():
        seen["GraphModule", attribute] = id(member)
    return seen
import torch_tensorrt.dynamo.runtime.meta_ops.register_meta_ops
before = identities()
import torch_tensorrt_profiles
changed = sum(1 for key, value in identities().items() if before.get(key) != value)
torch_tensorrt_profiles.deactivate()
after = identities()
def readable(key): return str(key)
new = {k: v for k, v in after.items() if "__" not in str(k[1])}
old = {k: v for k, v in before.items() if "__" not in str(k[1])}
left = [str(k) for k in set(new) ^ set(old)] + [str(k) for k in new if k in old and new[k] != old[k]]
report(changed=changed, left=left)
"""
    )
    seen = run_python(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0").values
    assert seen["changed"] > 10
    assert seen["left"] == []


def test_deactivate_and_activate_again(run_python):
    code = """
import torch_tensorrt, torch_tensorrt_profiles, inspect
torch_tensorrt_profiles.deactivate()
off = "optimization_profiles" in inspect.signature(torch_tensorrt.dynamo.compile).parameters
torch_tensorrt_profiles.activate()
import sys
on = ["optimization_profiles" in inspect.signature(f).parameters for f in
      (torch_tensorrt.dynamo.compile, torch_tensorrt.compile, sys.modules["torch_tensorrt._compile"].dynamo_compile)]
from torch_tensorrt.dynamo import OptimizationProfile
report(off=off, on=on, active=torch_tensorrt_profiles.is_active())
"""
    seen = run_python("import torch\ntorch.cuda.current_device = lambda *a: 0\n" + code).values
    assert seen == {"off": False, "on": [True, True, True], "active": True}
