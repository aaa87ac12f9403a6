#!/usr/bin/env bash
# installed.sh SOURCE_DIR BINARY_DIR: what is installed from BINARY_DIR for others than CMake: the command, the names of
# shared libraries, the licences, pkg-config. CXX and CC are in the environment. When cross-built, ATTEND_EMULATOR runs
# the command, and pkg-config, which may know this machine's packages alone, is left out.
set -euo pipefail
source=$1 binary=$2
run=(${ATTEND_EMULATOR:+"$ATTEND_EMULATOR"})
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$binary/embed/installed
prefix=$work/moved

fail() {
  echo "$*" >&2
  exit 1
}

# Nothing may depend on the place that it was installed to.
rm -rf "$work"
cmake --install "$binary" --prefix "$work/prefix" >/dev/null
mv "$work/prefix" "$prefix"
library=$(find "$prefix" -name 'libattend.so' -o -name libattend.a)
version=$(sed -n 's/^#define ATTEND_VERSION_[A-Z]* \([0-9]*\)$/\1/p' "$source/include/attend/version.h" | paste -sd .)

# A program says whose letters it draws.
[[ -s $prefix/share/doc/attend/LICENSE ]] || fail "no licence is installed"
command=$prefix/bin/attend
if [[ -e $command ]]; then
  notice=$(tr -s '[:space:]' ' ' <"$prefix/share/doc/attend/LICENSE.DejaVu")
  for words in "Copyright (c) 2003 by Bitstream, Inc." "prior written authorization from the Gnome Foundation" \
    "Copyright (c) 2006 by Tavmjong Bah." "prior written authorization from Tavmjong Bah"; do
    [[ $notice == *"$words"* ]] || fail "LICENSE.DejaVu lacks: $words"
  done
  said=$(env -u LD_LIBRARY_PATH "${run[@]}" "$command" --version)
  [[ $said == "attend $version"* ]] || fail "$command is $said, expected $version"
fi

# A shared library's name is a promise: libraries of one minor version, which CMake's package takes for each other.
if [[ $library == *.so ]]; then
  for name in attend attend_io; do
    said=$(LC_ALL=C readelf -d "${library%attend.so}$name.so")
    [[ $said == *"soname: [lib$name.so.${version%.*}]"* ]] ||
      fail "lib$name.so is not named after version ${version%.*}: $(grep soname <<<"$said")"
  done
  # shellcheck disable=SC2016  # the loader's variable
  [[ $said == *'path: [$ORIGIN'* ]] || fail "libattend_io.so does not look for libattend.so beside itself"
  paths=$(find "$prefix" '(' -name 'libattend*.so' -o -path '*/bin/*' ')' -exec readelf -d {} + | grep PATH || true)
  [[ $paths != *[:[]/* ]] || fail "an absolute path is left in what is installed: $paths"
fi

if [[ -n ${ATTEND_EMULATOR:-} ]] || ! command -v pkg-config >/dev/null; then
  echo "not testing pkg-config: cross-built, or it is not installed"
  exit 0
fi
PKG_CONFIG_PATH=$(dirname "$library")/pkgconfig:${PKG_CONFIG_PATH:-}
LD_LIBRARY_PATH=$(dirname "$library"):${LD_LIBRARY_PATH:-}
export PKG_CONFIG_PATH LD_LIBRARY_PATH
[[ $(pkg-config --modversion attend) == "$version" ]] || fail "pkg-config knows another version than $version"
cd "$work"
# With --static and without: to link a static library it takes both times what that needs.
for static in "" --static; do
  # shellcheck disable=SC2046,SC2086  # words are options
  "$CXX" -std=c++20 -DPACKAGE_VERSION="\"$version\"" "$here/service/main.cc" -o service \
    $(pkg-config --cflags --libs $static attend_io)
  ./service
  # shellcheck disable=SC2046,SC2086
  "$CC" -std=c99 "$here/c_service/main.c" -o c_service $(pkg-config --cflags --libs $static attend)
  ./c_service
done
