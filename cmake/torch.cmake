# Imported targets for the two torch libraries that are needed. find_package(Torch) is not used: it insists on a CUDA
# toolkit, which neither the library nor its build needs.
if(NOT TORCH_DIR)
  find_package(Python3 COMPONENTS Interpreter REQUIRED)
  execute_process(
    COMMAND ${Python3_EXECUTABLE} -c
            "import importlib.util as u, os; print(os.path.dirname(u.find_spec('torch').origin))"
    OUTPUT_VARIABLE TORCH_DIR
    OUTPUT_STRIP_TRAILING_WHITESPACE
    RESULT_VARIABLE _torch_not_found)
  if(_torch_not_found)
    message(FATAL_ERROR "${Python3_EXECUTABLE} has no torch. Pass -DTORCH_DIR=<folder of the torch package>, "
                        "for example .venv/lib/python3.11/site-packages/torch")
  endif()
endif()
if(NOT EXISTS "${TORCH_DIR}/include/torch/library.h")
  message(FATAL_ERROR "TORCH_DIR=${TORCH_DIR} is not the folder of a torch package: it has no include/torch/library.h")
endif()

foreach(name c10 torch_cpu)
  if(TARGET torch::${name})
    continue()
  endif()
  add_library(torch::${name} SHARED IMPORTED)
  set_target_properties(torch::${name} PROPERTIES IMPORTED_LOCATION "${TORCH_DIR}/lib/lib${name}.so")
  target_include_directories(torch::${name} SYSTEM INTERFACE "${TORCH_DIR}/include"
                                                              "${TORCH_DIR}/include/torch/csrc/api/include")
endforeach()
