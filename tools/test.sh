#!/usr/bin/env bash
# Installs what is missing, builds and runs every test on every instruction set this CPU has.
#   tools/test.sh               the release build: what a user runs
#   tools/test.sh --all         what CI runs: also shared libraries, no oneDNN, AddressSanitizer +
#                               UndefinedBehaviorSanitizer, ThreadSanitizer; with ccache, which it installs too. What
#                               has not begun in time is left out, and said to be: CI ends a run after an hour and a
#                               half. asan takes the longest, tsan some minutes.
#   tools/test.sh PRESET...     these presets of CMakePresets.json, such as clang, or subset: kernels for AVX2 alone
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

presets=(release) cache=
declare -A begins_within=()  # seconds
case "$*" in
  "") ;;
  --all) presets=(release shared plain asan tsan) cache=ccache begins_within=([asan]=3000 [tsan]=4500) ;;
  -* | *" -"*) echo "usage: tools/test.sh [--all | PRESET...]" >&2; exit 2 ;;
  *) presets=("$@") ;;
esac
# clang has no OpenMP of its own, the runtime that Debian's oneDNN is built on.
[[ " ${presets[*]} " != *" clang "* ]] || packages+=(clang libomp-dev)

# shared and plain compile mostly what release has compiled.
if [[ -n $cache ]]; then
  packages+=("$cache")
  export CMAKE_CXX_COMPILER_LAUNCHER=$cache CCACHE_DIR=$root/build/ccache
fi

say "packages"
install_missing
passed=()
for preset in "${presets[@]}"; do
  if ((SECONDS > ${begins_within[$preset]:-SECONDS})); then
    say "not testing preset $preset, for want of time after $((SECONDS / 60)) min"
    continue
  fi
  build "$preset"
  say "testing preset $preset, $((SECONDS / 60)) min after the start"
  (cd "$root" && ctest --preset "$preset" --no-tests=error -j "$jobs")
  passed+=("$preset")
done
say "all tests passed in $((SECONDS / 60)) min: ${passed[*]}"
