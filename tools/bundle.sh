#!/usr/bin/env bash
# Installs the release build into one relocatable folder: tools/bundle.sh DIR [--no-cuda-libraries]
# With CUDA, NVRTC, CUPTI and the headers that kernels include go into DIR/cuda; a host then needs
# nothing but the driver, OpenSSL 3 and, for the CPU device, a C++ compiler.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
out=$(realpath -m "${1:?usage: tools/bundle.sh DIR [--no-cuda-libraries]}")
cmake --install build/release --prefix "$out" --strip > /dev/null
[ "${2:-}" = --no-cuda-libraries ] && exit 0

for cuda in "${TUNE_CUDA_PATH:-/usr/local/cuda}" .venv/lib/python3*/site-packages/nvidia/cu13; do
  [ -e "$cuda/include/nvrtc.h" ] || continue
  mkdir -p "$out/cuda/lib" "$out/cuda/include"
  for library in libnvrtc libnvrtc-builtins libcupti; do
    find -L "$cuda/lib64" "$cuda/lib" "$cuda/extras/CUPTI/lib64" -maxdepth 1 -name "$library.so.*" \
      -exec cp -L -n {} "$out/cuda/lib/" \; 2>/dev/null || true
  done
  # What a kernel may include (docs/sources.md), with what these include: not the headers of host libraries.
  for header in "$cuda"/include/{builtin_types,cuda,cuda_awbarrier*,cuda_bf16,cuda_device_runtime_api,cuda_fp*,cuda_pipeline*}.h* \
      "$cuda"/include/{cuda_runtime*,cuComplex,cooperative_groups,curand*,device_*,driver_types,host_*,library_types}.h* \
      "$cuda"/include/{math_constants,mma,sm_*,surface_*,texture_*,vector_*}.h* \
      "$cuda"/include/{cccl,cooperative_groups,crt,nv}; do
    [ -e "$header" ] && cp -rL "$header" "$out/cuda/include/"
  done
  for needed in include/cuda_bf16.h include/crt "lib/libnvrtc.so.*" "lib/libcupti.so.*"; do
    compgen -G "$out/cuda/$needed" > /dev/null || { echo "$cuda has no $needed to bundle" >&2; exit 1; }
  done
  exit 0
done
echo "no CUDA to bundle: the folder has the CPU device only" >&2
