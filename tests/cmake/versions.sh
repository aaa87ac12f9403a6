#!/usr/bin/env bash
# versions.sh SOURCE_DIR BINARY_DIR: the build says no to versions of libraries that are too old, naming both, and takes
# later major ones. Of the libraries that BINARY_DIR's build found; others' packages are here the same, but for the
# version. CXX and CC are in the environment.
set -euo pipefail
source=$1 binary=$2 work=$2/versions
rm -rf "$work"
mkdir -p "$work/fake"

fail() {
  echo "$*" >&2
  exit 1
}

# cached VARIABLE [BINARY_DIR]: its value in a build.
cached() { sed -n "s/^$1:[A-Z]*=//p" "${2:-$binary}/CMakeCache.txt"; }

# pretend NAME VERSION: the directory of a package that is the one found, in another version.
pretend() {
  local real fake=$work/fake/$1-$2
  mkdir -p "$fake"
  real=$(cached "$1_DIR")
  real=$(find "$real" -iname "$1Config.cmake" -o -iname "$1-config.cmake")
  echo "include(\"$real\")" >"$fake/$1Config.cmake"
  # What CMake writes for SameMajorVersion.
  cat >"$fake/$1ConfigVersion.cmake" <<END
set(PACKAGE_VERSION $2)
set(PACKAGE_VERSION_COMPATIBLE TRUE)
if(PACKAGE_FIND_VERSION AND NOT PACKAGE_FIND_VERSION_MAJOR EQUAL ${2%%.*})
  set(PACKAGE_VERSION_COMPATIBLE FALSE)
endif()
END
  echo "$fake"
}

# pretend_onednn VERSION: the directory of its headers.
pretend_onednn() {
  local fake=$work/fake/OneDNN-$1 major minor patch
  IFS=. read -r major minor patch <<<"$1"
  mkdir -p "$fake/oneapi/dnnl"
  touch "$fake/dnnl.hpp"
  printf '#define DNNL_VERSION_%s\n' "MAJOR $major" "MINOR $minor" "PATCH $patch" >"$fake/oneapi/dnnl/dnnl_version.h"
  echo "$fake"
}

configure() {
  cmake -G Ninja -S "$source" -B "$work/build" "-DATTEND_WITH_ONEDNN=$(cached ATTEND_WITH_ONEDNN)" \
    "-DATTEND_BUILD_BENCH=$(cached ATTEND_BUILD_BENCH)" "-DATTEND_BUILD_TOOLS=$(cached ATTEND_BUILD_TOOLS)" "$@" 2>&1
}

# What each must not be older than is in the CMakeLists.txt.
declare -A too_old=([hwy]=1.0.2 [nlohmann_json]=3.8.0 [CLI11]=2.1.1 [doctest]=2.4.8 [benchmark]=1.7.0)
options=()
for name in "${!too_old[@]}"; do
  [[ -n $(cached "${name}_DIR") ]] || unset "too_old[$name]"
done
for name in "${!too_old[@]}"; do options+=("-D${name}_DIR=$(pretend "$name" 99.0.0)"); done
if [[ $(cached ATTEND_WITH_ONEDNN) == ON ]]; then options+=("-DOneDNN_INCLUDE_DIR=$(pretend_onednn 99.0.0)"); fi
message=$(configure "${options[@]}") || fail "later major versions are not taken: $message"
for name in "${!too_old[@]}"; do  # else the real one is found instead
  [[ $(cached "${name}_DIR" "$work/build") == "$work/fake/$name-99.0.0" ]] || fail "$name 99.0.0 was passed over"
done

for name in "${!too_old[@]}"; do
  version=${too_old[$name]}
  fake=$(pretend "$name" "$version")
  message=$(configure "${options[@]}" "-D${name}_DIR=$fake") && fail "$name $version was taken"
  message=$(tr -s '[:space:]' ' ' <<<"$message")
  [[ $message == *"$name has version $version in $fake, expected "*" or later"* ]] ||
    fail "no word of $name in: $message"
done
if [[ $(cached ATTEND_WITH_ONEDNN) == ON ]]; then
  message=$(configure "${options[@]}" "-DOneDNN_INCLUDE_DIR=$(pretend_onednn 2.5.4)") && fail "oneDNN 2.5.4 was taken"
  message=$(tr -s '[:space:]' ' ' <<<"$message")
  [[ $message == *'OneDNN: Found unsuitable version "2.5.4", but required is at least "2.6"'* ]] ||
    fail "no word of oneDNN in: $message"
fi
echo "checked: ${!too_old[*]}"
