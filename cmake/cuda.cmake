# CUDA headers for the device workers: target tune::cuda_headers. Headers only, since every CUDA
# library is opened at run time. A toolkit of 12.8 or later, or NVIDIA's wheels from PyPI in .venv
# (nvidia-cuda-nvrtc, nvidia-cuda-cupti, nvidia-cuda-runtime, nvidia-cuda-crt 13.0.x).
file(GLOB tune_cuda_wheels
     ${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/nvidia/cu13)
set(tune_cuda_roots $ENV{TUNE_CUDA_PATH} ${CUDAToolkit_ROOT} $ENV{CUDA_PATH} /usr/local/cuda
    ${tune_cuda_wheels})
set(tune_cuda_missing "no cuda.h, nvrtc.h and cupti.h in any of: ${tune_cuda_roots}")
foreach(root ${tune_cuda_roots})
  foreach(header cuda nvrtc cupti)
    unset(tune_${header}_dir)
    find_path(tune_${header}_dir ${header}.h NO_CACHE NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH
              PATHS ${root}/include ${root}/extras/CUPTI/include)
  endforeach()
  if(NOT tune_cuda_dir OR NOT tune_nvrtc_dir OR NOT tune_cupti_dir)
    continue()
  endif()
  file(STRINGS ${tune_cuda_dir}/cuda.h tune_cuda_version REGEX "^#define CUDA_VERSION [0-9]+")
  string(REGEX MATCH "[0-9]+" tune_cuda_version "${tune_cuda_version}")
  if(tune_cuda_version LESS 12080)
    set(tune_cuda_missing "${root} is older than CUDA 12.8")
    continue()
  endif()
  add_library(tune_cuda_headers INTERFACE)
  add_library(tune::cuda_headers ALIAS tune_cuda_headers)
  target_include_directories(tune_cuda_headers SYSTEM INTERFACE ${tune_cuda_dir} ${tune_nvrtc_dir}
                             ${tune_cupti_dir})
  message(STATUS "CUDA ${tune_cuda_version} headers: ${tune_cuda_dir}")
  break()
endforeach()

if(NOT TARGET tune::cuda_headers)
  message(STATUS "Building without CUDA devices: ${tune_cuda_missing}. Install a CUDA toolkit of "
                 "12.8 or later, or NVIDIA's wheels into .venv, and configure again.")
  set(TUNE_CUDA OFF)
endif()
