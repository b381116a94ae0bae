#!/usr/bin/env bash
# Makes one wheel of the programs, libtune, the Python package, the messages and the records, and prints its path:
#   tools/wheel.sh [DIR [x86_64|aarch64]]     (default: build x86_64)
# It needs glibc of a version that its name says, or a newer one, and any Python 3. CUDA comes from a toolkit of the host
# or from NVIDIA's wheels (`pip install 'tunectl[cuda]'`).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/setup.sh
out=$(realpath -m "${1:-build}")
architecture=${2:-x86_64}
case "$architecture" in
  x86_64) suffix="" ;;
  aarch64) suffix=-aarch64 ;;
  *) die "no wheel is made for '$architecture', only for x86_64 and aarch64" ;;
esac
place=build/wheel$suffix
bytes_max=45000000
ensure_packages
ensure_packages tools/packages-wheel.txt
ensure_cuda
tools/portable.sh "build/portable$suffix" "$architecture"
python=$(ensure_environment wheel-tools tools/wheel-python.txt)
build "wheel$suffix" programs

stage=$PWD/$place/stage
rm -rf "$stage" $place/package $place/dist
cmake --install $place --prefix "$stage" --strip > $place/install.log
# A build leaves files beside the source.
mkdir -p $place/package/client
cp -r client/python $place/package/client/
rm -rf $place/package/client/python/{build,src/*.egg-info}
ln -s "$PWD/proto" $place/package/proto
ln -s "$PWD/kernels" $place/package/kernels
_PYTHON_HOST_PLATFORM=linux-$architecture TUNE_PREFIX=$stage TUNE_PROGRAMS=1 quietly $place/package.log "$python" -m pip wheel --disable-pip-version-check \
  --no-deps --no-build-isolation -w $place/dist $place/package/client/python ||
  die "the wheel cannot be packed; the whole log is in $place/package.log"

# auditwheel names the oldest glibc on which it runs.
"$python" -m auditwheel show $place/dist/*.whl > $place/audit.log 2>&1 || { cat $place/audit.log >&2; exit 1; }
tag=$(tr '\n' ' ' < $place/audit.log | grep -oE 'platform tag: +"manylinux_2_[0-9]+_'"$architecture\""  | cut -d'"' -f2) || true
minor=$(echo "$tag" | cut -d_ -f3)
[ -n "$tag" ] && [ "$minor" -le 28 ] || { cat $place/audit.log >&2; die "the wheel does not run on glibc 2.28"; }
(cd $place/dist && "$python" -m wheel tags --remove --platform-tag "$tag" ./*.whl > /dev/null)
wheel=$(echo $place/dist/*.whl)
quietly $place/package.log advzip -z -2 "$wheel" || die "the wheel cannot be packed closer; the whole log is in $place/package.log"
[ "$(stat -c %s "$wheel")" -le $bytes_max ] || die "$wheel has $(stat -c %s "$wheel") bytes, more than $bytes_max"
mkdir -p "$out"
cp "$wheel" "$out/"
echo "$out/$(basename "$wheel")"
