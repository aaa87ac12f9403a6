#!/usr/bin/env bash
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

usage() {
  cat <<'END'
usage: tools/test-aarch64.sh [--quick] [--vector-bits N]... [--onednn] [--if-installed]

Cross-builds everything for 64-bit Arm (Debian's g++-aarch64-linux-gnu and arm64 libraries) and runs the tests on
processors that qemu-user emulates:
    NEON and one lane   on a Cortex-A53, which has no SVE
    SVE                 on an A64FX, which has no SVE2, with vectors of 128, 256 and 512 bits
    SVE2                on all that qemu knows, with the same vectors
As many at a time as there are cores. Installs what is missing (as root or through sudo; else it says what to install).
What it shows is that results are right, at the edges of memory too. Speed is not to be had from an emulator.

  --quick            only the tests of kernels and of the contract, on NEON and on SVE2 with vectors of 256 bits: what
                     CI runs
  --vector-bits N    SVE with vectors of N bits only: 128, 256 or 512; 1024 or 2048 for SVE2; may be repeated
  --onednn           with oneDNN, in build/aarch64-onednn. Without the Arm Compute Library, which Debian's has not, it
                     offers its reference implementation only, and the engine takes its own product anyway.
  --if-installed     where packages are missing, say so and succeed
END
}

wrong_usage() { echo "test-aarch64.sh: $*" >&2; usage >&2; exit 2; }

preset=aarch64 quick=false if_installed=false
all_bits=()
while (($# > 0)); do
  case "$1" in
    --quick) quick=true ;;
    --onednn) preset=aarch64-onednn ;;
    --if-installed) if_installed=true ;;
    --vector-bits)
      (($# > 1)) || wrong_usage "--vector-bits needs a number"
      [[ $2 =~ ^(128|256|512|1024|2048)$ ]] || wrong_usage "--vector-bits is $2, expected 128, 256, 512, 1024 or 2048"
      all_bits+=("$2")
      shift ;;
    --help) usage; exit 0 ;;
    *) wrong_usage "unknown option $1" ;;
  esac
  shift
done
if ((${#all_bits[@]} == 0)); then
  all_bits=(128 256 512)
  if $quick; then all_bits=(256); fi
fi

# Multi-Arch lets arm64's stand beside this machine's own, except libdnnl-dev, whose dnnl_config.h differs: it is
# unpacked into the build directory instead.
packages=(g++-aarch64-linux-gnu cmake ninja-build qemu-user
          libhwy-dev:arm64 nlohmann-json3-dev zlib1g-dev:arm64 libcli11-dev libpng-dev:arm64
          doctest-dev libbenchmark-dev:arm64)
if [[ $preset == *-onednn ]]; then packages+=(libdnnl2:arm64); fi

unpack_onednn() {
  local sysroot=$root/build/$preset/sysroot library=usr/lib/aarch64-linux-gnu/libdnnl.so
  if [[ ! -e $sysroot/$library ]]; then
    mkdir -p "$sysroot"
    (cd "$sysroot" && apt-get download -qq libdnnl-dev:arm64 && dpkg-deb -x libdnnl-dev_*_arm64.deb .)
    ln -sf /usr/lib/aarch64-linux-gnu/libdnnl.so.2 "$sysroot/$library"
  fi
  export CMAKE_PREFIX_PATH=$sysroot/usr  # for find_package, here and in the tests of embedding
}

tests=$root/build/$preset/tests/attend_tests

# What knows of instruction sets, and of that the kernels and the contract.
per_target='--source-file-exclude=*/tests/tools/*,*/tests/doors_test.cc'
kernels='--source-file=*/tests/kernels/*,*/tests/simd/*,*/tests/contract*'

# targets_of CPU PATTERN: "CPU TARGET" for those targets of a CPU that match, a line each. None is an error.
targets_of() {
  QEMU_CPU=$1 qemu-aarch64 "$tests" --count | sed -n 's/^targets under test: //p' | tr ' ' '\n' |
    grep -xE "$2" | sed "s/^/$1 /" || { echo "test-aarch64.sh: no target of $1 matches $2" >&2; return 1; }
}

# emulate FILTER CPU TARGET: the tests that the filter leaves. What they print is shown at their end.
emulate() {
  local filter=$1 cpu=$2 target=$3 start=$SECONDS log
  log=$root/build/$preset/tests-${cpu//[^a-z0-9]/-}-$target.log
  if QEMU_CPU=$cpu ATTEND_TARGET=$target qemu-aarch64 "$tests" "$filter" >"$log" 2>&1; then
    say "$target on $cpu passed in $(((SECONDS - start + 59) / 60)) min"
    tail -n 3 "$log"
  else
    say "$target on $cpu failed: $log"
    { grep -B 2 -A 8 ERROR "$log" || tail -n 20 "$log"; } | tail -n 200
    return 1
  fi
}

# emulate_all FILTER: for every line "CPU TARGET" of the input, as many at a time as there are cores.
emulate_all() {
  export -f emulate say
  export root preset tests
  xargs -P "$jobs" -L 1 bash -c 'emulate "$@"' emulate "$1"
}

test_kernels() {
  local bits
  say "testing the kernels of preset $preset on NEON and SVE2"
  {
    echo cortex-a53 NEON
    for bits in "${all_bits[@]}"; do echo "max,sve-default-vector-length=$((bits / 8)) SVE2"; done
  } | emulate_all "$kernels"
}

test_all() {
  local bits length targets
  say "testing preset $preset on cortex-a53: the command, embedding"
  (cd "$root" && QEMU_CPU=cortex-a53 ctest --preset "$preset" --no-tests=error -j "$jobs" -R '^(tools|embed\..*)$')
  targets=$(targets_of cortex-a53 '.*')
  # Highway has kernels of their own for SVE of 256 bits and SVE2 of 128: they are among the targets then.
  for bits in "${all_bits[@]}"; do
    length=sve-default-vector-length=$((bits / 8))
    if ((bits <= 512)); then targets+=$'\n'$(targets_of "a64fx,$length" 'SVE.*'); fi
    targets+=$'\n'$(targets_of "max,$length" 'SVE2.*')
  done
  say "testing preset $preset, $jobs at a time:"$'\n'"$targets"
  emulate_all "$per_target" <<<"$targets"
}

say "packages"
if $if_installed; then
  mapfile -t missing < <(missing_packages)
  if ((${#missing[@]} > 0)); then
    echo "not testing on Arm, for want of ${missing[*]}"
    exit 0
  fi
fi
install_missing
if [[ $preset == *-onednn ]]; then unpack_onednn; fi
if $quick; then
  build "$preset" attend_tests
  test_kernels
else
  build "$preset"
  test_all
fi
say "all tests passed: $preset, emulated"
