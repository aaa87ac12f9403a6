#!/usr/bin/env bash
# check.sh add_subdirectory|find_package SOURCE_DIR BINARY_DIR [CMAKE_OPTION...]: builds and runs the toy service against
# attend, embedded as source or installed from BINARY_DIR into a prefix of its own. When cross-built, CMAKE_TOOLCHAIN_FILE
# is in the environment, which CMake reads, and ATTEND_EMULATOR runs the programs.
set -euo pipefail
how=$1 source=$2 binary=$3
run=(${ATTEND_EMULATOR:+"$ATTEND_EMULATOR"})
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$binary/embed/$how
mkdir -p "$work"
options=(-G Ninja -S "$here/service" -B "$work/build" -DCMAKE_BUILD_TYPE=Release "-DHOW=$how" "${@:4}")
if [[ $how == add_subdirectory ]]; then
  options+=("-DATTEND_SOURCE_DIR=$source")
else
  cmake --install "$binary" --prefix "$work/prefix" >/dev/null
  [[ -s $work/prefix/share/doc/attend/LICENSE ]]
  options+=("-DCMAKE_PREFIX_PATH=$work/prefix")
fi
cmake "${options[@]}" --log-level=WARNING >/dev/null
cmake --build "$work/build"
cd "$work"
LD_LIBRARY_PATH=$work/prefix/lib:$(echo "$work"/prefix/lib/*-linux-gnu):${LD_LIBRARY_PATH:-}
export LD_LIBRARY_PATH
"${run[@]}" "$work/build/service"

# README.md shows this very program and what it prints. The line "prefetch" depends on the CPU; where that has another
# instruction set than README.md's, the lines that name it, tiles and workspace differ too.
readme=$(<"$source/README.md")
program=$(<"$here/service/readme.cc")
[[ $readme == *"$program"* ]] || { echo "README.md does not show tests/embed/service/readme.cc as it is" >&2; exit 1; }
printed=$("${run[@]}" "$work/build/readme")
echo "$printed"
shown=$(sed -n "/^${printed%%$'\n'*}\$/,/^\`\`\`\$/p" "$source/README.md" | sed '$d')
target() { sed -n 's/^  target  *\([^:]*\):.*/\1/p' <<<"$1"; }
varying='^  prefetch '
[[ $(target "$printed") == $(target "$shown") ]] || varying+='|^  (tiles|target|workspace) |, target '
diff <(grep -Ev "$varying" <<<"$shown") <(grep -Ev "$varying" <<<"$printed") >&2 ||
  { echo "README.md does not show the program's output" >&2; exit 1; }
