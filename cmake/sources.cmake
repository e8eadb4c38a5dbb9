# The one list of the library's sources, relative to the repository's root.
set(TORCHTRT_PROFILES_SOURCES
    core/runtime/cuda_streams.cpp
    core/runtime/engine_registry.cpp
    core/runtime/engine_session.cpp
    core/runtime/execute_engine.cpp
    core/runtime/glibc_compat.cpp
    core/runtime/json.cpp
    core/runtime/layer_timings.cpp
    core/runtime/profile_metadata.cpp
    core/runtime/profile_path.cpp
    core/runtime/register_jit_hooks.cpp
    core/runtime/runtime.cpp
    core/runtime/timing_report.cpp
    core/runtime/torchtrt_engine.cpp
    core/runtime/trace_files.cpp
    core/runtime/trace_layout.cpp
    core/runtime/warnings.cpp)
