#!/usr/bin/env bash
# Makes one wheel of the programs, libtune, the Python package, the messages and the records, and prints its path:
#   tools/wheel.sh [DIR]     (default: build)
# It needs glibc of a version that its name says, or a newer one, and any Python 3. CUDA comes from a toolkit of the host
# or from NVIDIA's wheels (`pip install 'tunectl[cuda]'`).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/setup.sh
out=$(realpath -m "${1:-build}")
bytes_max=45000000
ensure_packages
ensure_packages tools/packages-wheel.txt
ensure_cuda
tools/portable.sh build/portable
python=$(ensure_environment wheel-tools tools/wheel-python.txt)
build wheel programs

stage=$PWD/build/wheel/stage
rm -rf "$stage" build/wheel/package build/wheel/dist
cmake --install build/wheel --prefix "$stage" --strip > build/wheel/install.log
# A build leaves files beside the source.
mkdir -p build/wheel/package/client
cp -r client/python build/wheel/package/client/
rm -rf build/wheel/package/client/python/{build,src/*.egg-info}
ln -s "$PWD/proto" build/wheel/package/proto
ln -s "$PWD/kernels" build/wheel/package/kernels
TUNE_PREFIX=$stage TUNE_PROGRAMS=1 quietly build/wheel/package.log "$python" -m pip wheel --disable-pip-version-check \
  --no-deps --no-build-isolation -w build/wheel/dist build/wheel/package/client/python ||
  die "the wheel cannot be packed; the whole log is in build/wheel/package.log"

# auditwheel names the oldest glibc on which it runs.
"$python" -m auditwheel show build/wheel/dist/*.whl > build/wheel/audit.log 2>&1 || { cat build/wheel/audit.log >&2; exit 1; }
tag=$(tr '\n' ' ' < build/wheel/audit.log | grep -oE 'platform tag: +"manylinux_2_[0-9]+_x86_64"' | cut -d'"' -f2) || true
minor=$(echo "$tag" | cut -d_ -f3)
[ -n "$tag" ] && [ "$minor" -le 28 ] || { cat build/wheel/audit.log >&2; die "the wheel does not run on glibc 2.28"; }
(cd build/wheel/dist && "$python" -m wheel tags --remove --platform-tag "$tag" ./*.whl > /dev/null)
wheel=$(echo build/wheel/dist/*.whl)
quietly build/wheel/package.log advzip -z -2 "$wheel" || die "the wheel cannot be packed closer; the whole log is in build/wheel/package.log"
[ "$(stat -c %s "$wheel")" -le $bytes_max ] || die "$wheel has $(stat -c %s "$wheel") bytes, more than $bytes_max"
mkdir -p "$out"
cp "$wheel" "$out/"
echo "$out/$(basename "$wheel")"
