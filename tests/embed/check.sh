#!/usr/bin/env bash
# check.sh add_subdirectory|find_package SOURCE_DIR BINARY_DIR [CMAKE_OPTION...]: builds and runs the toy services with
# attend, embedded as source or installed from BINARY_DIR into a prefix of its own. When cross-built, CMAKE_TOOLCHAIN_FILE
# is in the environment, which CMake reads, and ATTEND_EMULATOR runs the programs.
set -euo pipefail
how=$1 source=$2 binary=$3
run=(${ATTEND_EMULATOR:+"$ATTEND_EMULATOR"})
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$binary/embed/$how
mkdir -p "$work"
options=(-G Ninja -DCMAKE_BUILD_TYPE=Release "${@:4}")
if [[ $how == add_subdirectory ]]; then
  options+=("-DATTEND_SOURCE_DIR=$source")
else
  rm -rf "$work/prefix"
  cmake --install "$binary" --prefix "$work/prefix" >/dev/null
  [[ -s $work/prefix/share/doc/attend/LICENSE ]]
  options+=("-DCMAKE_PREFIX_PATH=$work/prefix")
fi
configure() { cmake "${options[@]}" -S "$here/$1" -B "$work/$2" "${@:3}" --log-level=WARNING; }
configure service build "-DHOW=$how" >/dev/null
cmake --build "$work/build"
cd "$work"
LD_LIBRARY_PATH=$work/prefix/lib:$(echo "$work"/prefix/lib/*-linux-gnu):${LD_LIBRARY_PATH:-}
export LD_LIBRARY_PATH
"${run[@]}" "$work/build/service"

# A project in C: finds a shared library as it is, a static one with C++ beside, and says so.
if [[ $how == find_package ]]; then
  rm -rf "$work/c_build"
  if [[ -n $(find "$work/prefix" -name libattend.so) ]]; then
    configure c_service c_build -DLANGUAGES=C >/dev/null
  else
    message=$(configure c_service c_build -DLANGUAGES=C 2>&1) && { echo "found a static library for C" >&2; exit 1; }
    message=$(tr -s '[:space:]' ' ' <<<"$message")
    [[ $message == *" enable_language(CXX) "* ]] || { echo "no word of C++ in: $message" >&2; exit 1; }
    configure c_service c_build "-DLANGUAGES=C;CXX" >/dev/null
  fi
  cmake --build "$work/c_build"
  "${run[@]}" "$work/c_build/c_service"
fi

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
