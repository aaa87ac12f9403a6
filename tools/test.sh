#!/usr/bin/env bash
# Installs what is missing, builds and runs every test on every instruction set this CPU has.
#   tools/test.sh         the release build: what a user runs
#   tools/test.sh --all   what CI runs: also shared libraries, no oneDNN, AddressSanitizer + UndefinedBehaviorSanitizer, ThreadSanitizer
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

presets=(release)
case "${1:-}" in
  "") ;;
  --all) presets=(release shared plain asan tsan) ;;
  *) echo "usage: tools/test.sh [--all]" >&2; exit 2 ;;
esac

say "packages"
install_missing
for preset in "${presets[@]}"; do
  build "$preset"
  say "testing preset $preset"
  (cd "$root" && ctest --preset "$preset" --no-tests=error -j "$jobs")
done
say "all tests passed: ${presets[*]}"
