# find_package(torch_tensorrt_profiles) for programs without Python. Pass
#   -DCMAKE_PREFIX_PATH=$(python -c "import torch_tensorrt_profiles; print(torch_tensorrt_profiles.cmake_prefix_path)")
# Gives the targets
#   torch_tensorrt_profiles::torch_tensorrt_profiles  the library, its header torch_tensorrt/profiles.h, c10 and torch_cpu
#   torch_tensorrt_profiles::cuda                     torch's CUDA side, which registers itself with torch; no CUDA toolkit
# The torch package is the one beside this package, or -DTORCH_DIR=<its folder>.
get_filename_component(_torch_tensorrt_profiles_root "${CMAKE_CURRENT_LIST_DIR}/../../.." REALPATH)
if(NOT TORCH_DIR AND EXISTS "${_torch_tensorrt_profiles_root}/../torch/include/torch/library.h")
  get_filename_component(TORCH_DIR "${_torch_tensorrt_profiles_root}/../torch" REALPATH)
endif()
include("${CMAKE_CURRENT_LIST_DIR}/torch.cmake")

if(NOT TARGET torch_tensorrt_profiles::torch_tensorrt_profiles)
  add_library(torch_tensorrt_profiles::torch_tensorrt_profiles SHARED IMPORTED)
  set_target_properties(
    torch_tensorrt_profiles::torch_tensorrt_profiles
    PROPERTIES IMPORTED_LOCATION "${_torch_tensorrt_profiles_root}/lib/libtorchtrt_profiles.so"
               INTERFACE_INCLUDE_DIRECTORIES "${_torch_tensorrt_profiles_root}/include"
               INTERFACE_COMPILE_FEATURES cxx_std_20
               INTERFACE_LINK_LIBRARIES "torch::c10;torch::torch_cpu")

  foreach(name torch c10_cuda torch_cuda)
    add_library(torch_tensorrt_profiles::${name} SHARED IMPORTED)
    set_target_properties(torch_tensorrt_profiles::${name} PROPERTIES IMPORTED_LOCATION "${TORCH_DIR}/lib/lib${name}.so")
  endforeach()
  add_library(torch_tensorrt_profiles::cuda INTERFACE IMPORTED)
  # No program names a symbol of torch_cuda, so the linker would leave it out. What it needs itself is found at run time.
  set_target_properties(
    torch_tensorrt_profiles::cuda
    PROPERTIES INTERFACE_LINK_OPTIONS "-Wl,--no-as-needed;-Wl,--allow-shlib-undefined"
               INTERFACE_LINK_LIBRARIES
               "torch_tensorrt_profiles::torch;torch_tensorrt_profiles::c10_cuda;torch_tensorrt_profiles::torch_cuda")
endif()
