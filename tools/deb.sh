#!/usr/bin/env bash
# Makes the Debian package of the release build: tools/deb.sh DIR puts tunectl_VERSION_ARCH.deb there.
# Needs debhelper, chrpath and help2man (tools/packages-deb.txt); lintian accepts the package.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/setup.sh
out=$(realpath -m "${1:?usage: tools/deb.sh DIR}")
log=build/deb.log
ensure_packages tools/packages-deb.txt
build release programs

version=$(build/release/bin/tunerd --version)
maintainer=$(git log -1 --format='%an <%ae>' 2> /dev/null || echo 'tunectl <root@localhost>')
tree=build/deb/tunectl-$version
rm -rf build/deb
mkdir -p "$tree/debian/source" "$out"
cp -r tools/deb/. "$tree/debian/"
echo '3.0 (native)' > "$tree/debian/source/format"
sed -i "s|@MAINTAINER@|$maintainer|" "$tree/debian/control"
cat > "$tree/debian/changelog" <<CHANGELOG
tunectl ($version) unstable; urgency=medium

  * The build of this version.

 -- $maintainer  $(date -uR)
CHANGELOG
# A manual of each command, from its help.
for program in tunectl tunerd; do
  section=$([ $program = tunerd ] && echo 8 || echo 1)
  help2man -N -s $section -n "$([ $program = tunerd ] && echo 'tuning service for GPU kernels' ||
    echo 'tune and benchmark GPU kernels')" "build/release/bin/$program" > "$tree/debian/$program.$section"
  echo "debian/$program.$section" >> "$tree/debian/tunectl.manpages"
done
export TUNE_BUILD=$PWD/build/release
(cd "$tree" && quietly "$OLDPWD/$log" dpkg-buildpackage -b -us -uc -d) || die "the package failed; the whole log is in $log"
cp build/deb/tunectl_"$version"_*.deb "$out/"
echo "$out/$(basename build/deb/tunectl_"$version"_*.deb)"
