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
  for header in cuda_bf16.h cuda_bf16.hpp cuda_fp16.h cuda_fp16.hpp cuda_fp8.h cuda_fp8.hpp vector_types.h \
    vector_functions.h vector_functions.hpp builtin_types.h device_types.h driver_types.h host_defines.h \
    surface_types.h texture_types.h nv crt; do
    [ -e "$cuda/include/$header" ] && cp -rL "$cuda/include/$header" "$out/cuda/include/"
  done
  for needed in include/cuda_bf16.h include/crt "lib/libnvrtc.so.*" "lib/libcupti.so.*"; do
    compgen -G "$out/cuda/$needed" > /dev/null || { echo "$cuda has no $needed to bundle" >&2; exit 1; }
  done
  exit 0
done
echo "no CUDA to bundle: the folder has the CPU device only" >&2
