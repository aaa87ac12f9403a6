#!/usr/bin/env bash
# What instruction sets cost in a build of the engine (libattend alone): size, time, memory; a table in Markdown.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

usage() {
  cat <<'TEXT'
usage: tools/build-cost.sh [TARGETS...]
Builds libattend (Release, one job, no ccache) once per TARGETS, a value of the CMake option ATTEND_TARGETS such as AVX2 or
AVX3,AVX2, or "all"; default: all AVX3,AVX2 AVX3 AVX2 SCALAR. What the compiler's flags allow is in each of them. CXX names the
compiler. Prints, per build:
  static    size of libattend.a, its symbols for debugging and its local ones stripped
  shared    size of libattend.so, stripped
  code      of it, the section .text
  CPU time  of all compilers, user and system: what a build takes on one free core
  memory    of the compiler on the translation unit that needs most, and its name
TEXT
}

case ${1:-} in
  --help) usage; exit 0 ;;
  -*) echo "tools/build-cost.sh: option \"$1\" is unknown; see --help" >&2; exit 2 ;;
esac
sets=("$@")
((${#sets[@]})) || sets=("all" "AVX3,AVX2" "AVX3" "AVX2" "SCALAR")

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CCACHE_DISABLE=1
unset CMAKE_C_COMPILER_LAUNCHER CMAKE_CXX_COMPILER_LAUNCHER

# mebibytes BYTES: in print.
mebibytes() { awk -v bytes="$1" 'BEGIN { printf "%.2f MiB", bytes / 1048576 }'; }

# measure TARGETS: one row of the table.
measure() {
  local build=$work/$1 costs=$work/$1.tsv wanted=$1
  [[ $wanted != all ]] || wanted=
  # A configuration that fails is a name it does not know: CMake's message says which are known.
  cmake -G Ninja -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON -DATTEND_TARGETS="$wanted" \
    -DATTEND_BUILD_IO=OFF -DATTEND_BUILD_TOOLS=OFF -DATTEND_BUILD_TESTS=OFF -DATTEND_BUILD_BENCH=OFF \
    -DCMAKE_CXX_COMPILER_LAUNCHER="$root/tools/compile_cost.py;$costs" --log-level=WARNING >"$build.log" 2>&1 ||
    { cat "$build.log" >&2; exit 2; }
  cmake --build "$build" -j 1 --target attend >"$build.log" || { tail -n 20 "$build.log" >&2; exit 1; }
  # The same objects make the static library: all are position-independent.
  local shared archive=$build/libattend.a
  shared=$(realpath "$build/libattend.so")
  find "$build/CMakeFiles/attend.dir" -name '*.o' -exec ar rc "$archive" {} +
  strip --strip-unneeded "$shared" "$archive"
  local code seconds largest
  code=$(size -A -d "$shared" | awk '$1 == ".text" { print $2 }')
  seconds=$(awk '{ sum += $2 } END { printf "%.0f s", sum }' "$costs")
  largest=$(sort -n "$costs" | awk -v root="$root/" 'END { sub(root, "", $3); printf "%.0f MiB, %s", $1 / 1024, $3 }')
  printf '| %s | %s | %s | %s | %s | %s |\n' "${1//,/, }" "$(mebibytes "$(stat -c %s "$archive")")" \
    "$(mebibytes "$(stat -c %s "$shared")")" "$(mebibytes "$code")" "$seconds" "$largest"
}

printf '%s, %s, %s\n\n' "$(date +%F)" "$(sed -n 's/^model name\s*: //p' /proc/cpuinfo | head -n 1)" \
  "$("${CXX:-c++}" --version | head -n 1)"
echo "| targets | static | shared | code | CPU time | memory |"
echo "| --- | --- | --- | --- | --- | --- |"
for set in "${sets[@]}"; do measure "$set"; done
