#!/usr/bin/env bash
# Makes DIR for TUNE_PORTABLE (cmake/static.cmake): tools/portable.sh DIR [x86_64|aarch64]
#   DIR/glibc  stub libraries and start files of glibc $glibc_version, by `zig cc`: what is linked against them runs
#              under that glibc and any newer one
#   DIR/lib    archives that the distribution has not (cmake/portable), of the sources of its own packages
# On x86-64 only. Debian 12 and Ubuntu 24.04 have the sources.
set -euo pipefail
shopt -s extglob
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/setup.sh
out=$(realpath -m "${1:?usage: tools/portable.sh DIR [x86_64|aarch64]}")
architecture=${2:-x86_64}
glibc_version=2.28  # RHEL 8's
log=build/portable.log
stamp="$out/.made-$(cat "${BASH_SOURCE[0]}" tools/wheel-python.txt | cksum | cut -d' ' -f1)"
[ "$(uname -m)" = x86_64 ] || die "portable programs are built on x86-64 only"
case "$architecture" in
  x86_64) root="" loader=/lib64/ld-linux-x86-64.so.2 format=elf64-x86-64 toolchain=() ;;
  aarch64)
    ensure_aarch64
    root=$PWD/build/aarch64-root loader=/lib/ld-linux-aarch64.so.1 format=elf64-littleaarch64
    toolchain=(--toolchain "$PWD/cmake/aarch64.cmake")
    ;;
  *) die "no portable programs for $architecture, only for x86_64 and aarch64" ;;
esac

build_archives() {
  quietly "$log" cmake -G Ninja -S cmake/portable -B "$out" -DSOURCES="$out/sources" "${toolchain[@]}" \
    -DCMAKE_CXX_COMPILER_LAUNCHER="$(command -v ccache)" && quietly "$log" ninja -C "$out" ||
    die "the build failed; the whole log is in $log"
}
if [ -e "$stamp" ]; then
  build_archives
  exit 0
fi
rm -rf "$out"
mkdir -p "$out/glibc" "$out/lists/partial" "$out/apt" "$out/sources"

ensure_packages tools/packages-wheel.txt
python=$(ensure_environment wheel-tools tools/wheel-python.txt)

# An empty program's link line names all that zig links with.
printf 'int main(void) { return 0; }\n' > "$out/empty.c"
link() {
  ZIG_GLOBAL_CACHE_DIR=build/zig ZIG_LOCAL_CACHE_DIR=build/zig "$python" -m ziglang cc -v -pie -fPIE \
    -target "$architecture-linux-gnu.$glibc_version" -lm -lpthread -ldl -lrt "$out/empty.c" -o "$out/empty" 2>&1
}
say "making stub libraries of glibc $glibc_version"
link > "$log" || { tail "$log" >&2; die "zig cc failed; the whole log is in $log"; }
for file in $(grep '^ld.lld' "$log" | tail -n 1); do
  case "$file" in
    */Scrt1.o|*/libc_nonshared.a|*/lib@(c|m|pthread|dl|rt|util|resolv).so.*) cp "$file" "$out/glibc/" ;;
  esac
done
# A program that reads environ has a copy of it, which stands for all names of the variable. zig's stub library has a
# variable for each name, so it is made again with one.
stubs=$(dirname "$(grep '^ld.lld' "$log" | tail -n 1 | tr ' ' '\n' | grep '/libc\.so\.6$')")
sed -E -e '/_IO_stdin_used/d; s/^\.rodata$/.section .rodata/' \
  -e 's/^\.globl (_?environ|timezone|tzname|daylight)(_2_[0-9_]+)$/.weak \1\2/' \
  -e 's/^(_?)(environ|timezone|tzname|daylight)(_2_[0-9_]+): .*/.set \1\2\3, __\2\3/' "$stubs/c.s" > "$out/glibc/libc.s"
"$architecture-linux-gnu-gcc" -shared -nostdlib -Wl,-soname,libc.so.6 "-Wl,--version-script=$stubs/all.map" "$out/glibc/libc.s" -o "$out/glibc/libc.so.6"
for library in m pthread dl rt util resolv; do
  (cd "$out/glibc" && test -e lib$library.so.[0-9] && ln -s lib$library.so.[0-9] lib$library.so) ||
    die "zig named no lib$library; the whole log is in $log"
done
# -lc brings each of them, if it is needed.
as_needed=$(printf "$out/glibc/lib%s.so " pthread dl rt m resolv util)
cat > "$out/glibc/libc.so" <<SCRIPT
OUTPUT_FORMAT($format)
GROUP($out/glibc/libc.so.6 $out/glibc/libc_nonshared.a $out/lib/libglibc_compat.a
      AS_NEEDED($as_needed $root$loader))
SCRIPT

say "building what the distribution has no archive of (log in $log)"
for file in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
  grep -qsE 'debian|ubuntu' "$file" || continue
  sed -E 's/^Types: deb$/Types: deb-src/; s/^deb /deb-src /' "$file" > "$out/apt/$(basename "$file" | sed 's/^sources.list$/main.list/')"
done
apt=(apt-get -q -o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$out/apt" -o "Dir::State::lists=$out/lists"
     -o APT::Sandbox::User=root)
quietly "$log" "${apt[@]}" update || die "the sources of packages cannot be listed; the whole log is in $log"
for package in libabsl-dev libbenchmark-dev libfmt-dev libspdlog-dev prometheus-cpp-dev; do
  source=$(dpkg-query -W -f '${source:Package}' $package)
  (cd "$out/sources" && quietly "$OLDPWD/$log" "${apt[@]}" source "$source=$(dpkg-query -W -f '${source:Version}' $package)") ||
    die "there is no source of $package; the whole log is in $log"
  mv "$out/sources/$source"-*/ "$out/sources/$source"
done
build_archives
touch "$stamp"
