# Sourced by ./run and ./check: installs what is missing, configures, builds. Says what it does before
# it does it, and nothing about what is already done. REQUIRES: the project's root is the current folder.

say() { printf '== %s\n' "$*" >&2; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# quietly LOG COMMAND...: the command's output goes to the log, whose end is shown if it fails.
quietly() {
  local log="$1"
  shift
  mkdir -p "$(dirname "$log")"
  printf '$ %s\n' "$*" >> "$log"
  "$@" >> "$log" 2>&1 && return
  tail -n 20 "$log" >&2
  return 1
}

missing_packages() {
  local package
  for package in $(grep -v '^#' "$1"); do
    dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || echo "$package"
  done
}

# ensure_packages [LIST]: by default tools/packages.txt. A stamp with the list's checksum makes the second time quick.
ensure_packages() {
  local list="${1:-tools/packages.txt}" stamp
  stamp="build/.packages-$(cksum < "$list" | cut -d' ' -f1)"
  [ -e "$stamp" ] && return
  command -v dpkg-query >/dev/null || die "this is not Debian or Ubuntu; install the equivalents of $list, then: mkdir -p build && touch $stamp"
  local packages as_root=""
  packages=$(missing_packages "$list" | tr '\n' ' ')
  if [ -n "$packages" ]; then
    if [ "$(id -u)" -ne 0 ]; then
      command -v sudo >/dev/null || die "these packages are missing and there is no sudo; as root: apt-get install $packages"
      as_root="sudo"
    fi
    say "installing with apt (log in build/apt.log): $packages"
    quietly build/apt.log $as_root apt-get update -q || die "apt-get update failed; the whole log is in build/apt.log"
    quietly build/apt.log $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $packages ||
      die "apt-get install failed; the whole log is in build/apt.log"
  fi
  mkdir -p build && touch "$stamp"
}

# ensure_environment NAME LIST: prints the Python of an environment of its own, build/NAME, that has the list's packages.
ensure_environment() {
  local place="$PWD/build/$1" stamp
  stamp="$place/.has-$(cksum < "$2" | cut -d' ' -f1)"
  if [ ! -e "$stamp" ]; then
    say "installing Python packages into build/$1 (log in build/pip.log)"
    quietly build/pip.log python3 -m venv "$place" &&
      quietly build/pip.log "$place/bin/pip" install --disable-pip-version-check -r "$2" ||
      die "they cannot be installed; the whole log is in build/pip.log"
    touch "$stamp"
  fi
  echo "$place/bin/python3"
}

# What only tests use: nothing stops without it, so nothing here fails.
ensure_check_packages() {
  local stamp="build/.packages-check-$(cksum < tools/packages-check.txt | cut -d' ' -f1)" package as_root=""
  [ -e "$stamp" ] && return
  [ "$(id -u)" -eq 0 ] || as_root="sudo -n"
  for package in $(grep -v '^#' tools/packages-check.txt); do
    dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed && continue
    say "installing with apt, for tests: $package"
    DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends "$package" >&2 ||
      say "$package cannot be installed here: the tests that need it are skipped"
  done
  mkdir -p build && touch "$stamp"
}

# The compiler, the emulator and, in build/aarch64-root, the libraries of cmake/aarch64.cmake. The libraries are those of
# this distribution's release, because its protoc writes code for their headers.
ensure_aarch64() {
  local root=build/aarch64-root log=build/apt.log packages stamp link target release components
  packages=$(grep -E '^(lib|nlohmann|prometheus|zlib)' tools/packages.txt | paste -sd,)
  ensure_packages tools/packages-aarch64.txt
  stamp="$root/.has-$(cksum <<< "$packages" | cut -d' ' -f1)"
  [ -e "$stamp" ] && return
  say "downloading the libraries of AArch64 into $root (450 MB, log in $log)"
  rm -rf "$root"
  release=$(. /etc/os-release && echo "$VERSION_CODENAME")
  components=$(. /etc/os-release && [ "$ID" = ubuntu ] && echo main,universe || echo main)
  quietly "$log" mmdebstrap --variant=extract --architectures=arm64 --components="$components" --include="$packages" \
    "$release" "$root" || die "they cannot be downloaded; the whole log is in $log"
  find "$root/usr" "$root/lib" -lname '/*' -printf '%p %l\n' |
    while read -r link target; do ln -sfnr "$root$target" "$link"; done
  ln -sf -t "$root/usr/bin" /usr/bin/grpc_*_plugin  # CMake's targets of gRPC name programs beside its libraries
  touch "$stamp"
}

# CUDA headers and NVRTC: a toolkit, else NVIDIA's wheels in a local environment, else none.
ensure_cuda() {
  local toolkit
  for toolkit in "${TUNE_CUDA_PATH:-}" /usr/local/cuda; do
    [ -n "$toolkit" ] && [ -e "$toolkit/include/nvrtc.h" ] && [ -e "$toolkit/include/cupti.h" -o -e "$toolkit/extras/CUPTI/include/cupti.h" ] && return
  done
  compgen -G '.venv/lib/python3*/site-packages/nvidia/cu13/include/nvrtc.h' >/dev/null && return
  [ -e build/.no-cuda ] && return
  say "no CUDA toolkit found; installing NVIDIA's wheels from PyPI into .venv (about 150 MB, log in build/pip.log)"
  if quietly build/pip.log python3 -m venv .venv && quietly build/pip.log .venv/bin/pip install --disable-pip-version-check \
      'nvidia-cuda-nvrtc==13.0.*' 'nvidia-cuda-cupti==13.0.*' 'nvidia-cuda-runtime==13.0.*' \
      'nvidia-cuda-crt==13.0.*' 'nvidia-cuda-cccl==13.0.*'; then
    return
  fi
  rm -rf .venv
  mkdir -p build && touch build/.no-cuda
  say "the wheels could not be installed: building without CUDA, for the CPU device only (remove build/.no-cuda to try again)"
}

# Python packages that only tests use, in .venv. REQUIRES: ensure_cuda, which may make .venv anew.
ensure_check_python() {
  local stamp="build/.python-check-$(cksum < tools/python-check.txt | cut -d' ' -f1)"
  [ -e "$stamp" ] && return
  say "installing Python packages for tests into .venv (log in build/pip.log)"
  if [ -e .venv ] || quietly build/pip.log python3 -m venv .venv; then
    quietly build/pip.log .venv/bin/pip install --disable-pip-version-check -r tools/python-check.txt ||
      say "they cannot be installed here: the tests that need them are skipped"
  else
    rm -rf .venv
    say "Python makes no environment here (python3-venv): the tests that need one are skipped"
  fi
  rm -f build/*/build.ninja  # what `./run` configured without .venv has another Python for the tests
  mkdir -p build && touch "$stamp"
}

# Triton, for kernels written in it. Nothing stops without it: tests that need it are skipped.
ensure_triton() {
  local python
  for python in ${TUNE_TRITON_PYTHON:+"$TUNE_TRITON_PYTHON"} .venv/bin/python3 python3; do
    command -v "$python" >/dev/null && "$python" -c 'import importlib.util as u; exit(u.find_spec("triton") is None)' 2>/dev/null && return
  done
  [ -e build/.no-triton ] && return
  say "installing Triton from PyPI into .venv (about 190 MB, log in build/pip.log)"
  [ -e .venv/bin/pip ] || quietly build/pip.log python3 -m venv .venv || true
  quietly build/pip.log .venv/bin/pip install --disable-pip-version-check 'triton>=3.5' && return
  mkdir -p build && touch build/.no-triton
  say "Triton could not be installed: its kernels cannot be compiled, everything else works (remove build/.no-triton to try again)"
}

# What `./check triton` compiles by: every minor release that is served, the oldest first.
TRITON_RELEASES=(3.5 3.6 3.7 3.8 newest)
TRITON_TESTS=(triton_tests kernels_tests supervision_tests)

# ensure_triton_release 3.5|newest: in an environment of its own, build/triton/NAME.
ensure_triton_release() {
  local log=build/triton.log place="build/triton/$1" wanted="triton==$1.*"
  [ "$1" != newest ] || wanted=triton
  if [ ! -x "$place/bin/pip" ]; then
    say "installing Triton $1 into $place (about 190 MB, log in $log)"
    quietly "$log" python3 -m venv "$place" || die "Python makes no environment here: install python3-venv"
  fi
  quietly "$log" "$place/bin/pip" install --disable-pip-version-check --upgrade "$wanted" ||
    die "Triton $1 cannot be installed here; the whole log is in $log"
  say "by Triton $("$place/bin/python3" -c 'import importlib.metadata as m; print(m.version("triton"))')"
}

# PyTorch, in an environment of its own: PyTorch's index has a build for CPUs (200 MB), PyPI one with CUDA.
# A Python that has it already will do: TUNE_TORCH_PYTHON.
ensure_torch() {
  local log=build/torch.log place=build/torch
  [ -x "$place/bin/python3" ] && "$place/bin/python3" -c 'import torch' 2>/dev/null && return
  mkdir -p build
  if [ -n "${TUNE_TORCH_PYTHON:-}" ] && "$TUNE_TORCH_PYTHON" -c 'import torch' 2>/dev/null; then
    mkdir -p "$place/bin"
    printf '#!/bin/sh\nexec %q "$@"\n' "$(command -v "$TUNE_TORCH_PYTHON")" > "$place/bin/python3"
    chmod +x "$place/bin/python3"
    return
  fi
  say "installing PyTorch into $place (200 MB to 3 GB, log in $log)"
  quietly "$log" python3 -m venv "$place" || die "Python makes no environment here: install python3-venv"
  quietly "$log" "$place/bin/pip" install --disable-pip-version-check numpy torch --index-url https://download.pytorch.org/whl/cpu ||
    quietly "$log" "$place/bin/pip" install --disable-pip-version-check numpy torch ||
    die "PyTorch cannot be installed here; the whole log is in $log. If a Python has it: TUNE_TORCH_PYTHON=... ./check torch"
}

# transformers beside that PyTorch, for the tests of tunectl.patch. Nothing stops without it. REQUIRES: ensure_torch.
ensure_transformers() {
  local log=build/torch.log python=build/torch/bin/python3
  "$python" -c 'import importlib.util as u; exit(u.find_spec("transformers") is None)' && return
  say "installing transformers beside PyTorch (60 MB, log in $log)"
  quietly "$log" "$python" -m pip install --disable-pip-version-check transformers ||
    say "transformers cannot be installed here: the tests that need it are skipped"
}

# build PRESET [TARGET...]: output only when there is something to say. With ccache, presets share what they compile alike;
# clones do not, since a precompiled header of another clone names that clone's headers.
build() {
  local preset="$1" log="build/$1.log"
  shift
  mkdir -p build
  if [ ! -e "build/$preset/build.ninja" ]; then
    say "configuring preset $preset"
    cmake --preset "$preset" > "$log" 2>&1 || { cat "$log" >&2; die "configuring failed"; }
    grep -i 'cuda' "$log" | sed 's/^-- //' >&2 || true
  fi
  # A build with nothing to do is over before the notice.
  (sleep 1.5 > /dev/null 2>&1 && say "building preset $preset (the first time takes some minutes; log in $log)") &
  local notice=$!
  CCACHE_BASEDIR="${CCACHE_BASEDIR:-$PWD}" CCACHE_NAMESPACE="${CCACHE_NAMESPACE:-$PWD}" CCACHE_NOHASHDIR=1 ninja -C "build/$preset" "$@" > "$log" 2>&1 || { kill $notice 2>/dev/null; tail -n 60 "$log" >&2; die "the build failed; the whole log is in $log"; }
  kill $notice 2>/dev/null || true
  wait $notice 2>/dev/null || true
}
