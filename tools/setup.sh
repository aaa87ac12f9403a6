# Sourced by the scripts beside it: finds the repository, installs what is missing, configures and builds.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
jobs=$(nproc 2>/dev/null || echo 2)

# Debian 12's names. Core: libdnnl-dev, libhwy-dev. Tools: the next four. Tests: doctest-dev. Benchmarks: libbenchmark-dev.
# Scripts that report on benchmarks, and their tests: python3.
packages=(g++ cmake ninja-build libdnnl-dev libhwy-dev
          nlohmann-json3-dev zlib1g-dev libcli11-dev libpng-dev
          doctest-dev libbenchmark-dev python3)

say() { printf '\n== %s\n' "$*"; }

# is_installed PACKAGE[:ARCHITECTURE]: without one, this machine's own.
is_installed() {
  local architecture
  if [[ $1 == *:* ]]; then architecture=${1#*:}; else architecture=$(dpkg --print-architecture 2>/dev/null); fi
  dpkg-query -W -f '${Architecture} ${db:Status-Status}\n' "${1%:*}" 2>/dev/null |
    grep -qxE "(all|$architecture) installed"
}

# missing_packages: those of packages that are not installed, one a line.
missing_packages() {
  local package
  for package in "${packages[@]}"; do
    is_installed "$package" || echo "$package"
  done
}

install_missing() {
  if ! command -v dpkg-query >/dev/null; then
    echo "not a Debian system: taking it that these or their like are installed: ${packages[*]}"
    return 0
  fi
  local missing=() foreign='' package
  mapfile -t missing < <(missing_packages)
  if ((${#missing[@]} == 0)); then
    echo "packages: all there"
    return 0
  fi
  for package in "${missing[@]}"; do
    [[ $package != *:* ]] || foreign=${package#*:}
  done
  local as_root=()
  if ((EUID != 0)); then
    if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
      as_root=(sudo)
    else
      echo "these packages are missing, and installing needs root; please run:" >&2
      [[ -z $foreign ]] || echo "    sudo dpkg --add-architecture $foreign && sudo apt-get update" >&2
      echo "    sudo apt-get install ${missing[*]}" >&2
      return 1
    fi
  fi
  say "installing ${missing[*]}"
  [[ -z $foreign ]] || "${as_root[@]}" dpkg --add-architecture "$foreign"
  "${as_root[@]}" apt-get update -qq
  DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# build PRESET [TARGET...]: configure and build one preset of CMakePresets.json, or some targets of it.
build() {
  local preset=$1
  shift
  say "building preset $preset in build/$preset with $jobs jobs"
  (cd "$root" && cmake --preset "$preset" --log-level=WARNING >/dev/null &&
    cmake --build --preset "$preset" -j "$jobs" ${1:+--target "$@"})
}

# The numbers of the cores this process may use, one a line.
usable_cores() {
  local list part
  list=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)
  for part in ${list//,/ }; do seq "${part%-*}" "${part#*-}"; done
}

# A Python that draws, else any: the first python3 of the path may be someone's own, without Debian's packages.
python_with_matplotlib() {
  local python
  for python in python3 /usr/bin/python3; do
    if "$python" -c 'import matplotlib' 2>/dev/null; then
      echo "$python"
      return
    fi
  done
  echo python3
}
