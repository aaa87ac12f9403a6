#!/usr/bin/env bash
# targets.sh ATTEND SOURCE_DIR BINARY_DIR [TARGET ...]: the option ATTEND_TARGETS, of which this build's value is TARGET ...,
# says no to names that it does not know, and leaves in the library what it names.
set -euo pipefail
attend=$1 source=$2 work=$3/targets
shift 3
available=$("$attend" targets | cut -d ' ' -f 1)

fail() {
  echo "$*" >&2
  exit 1
}

rm -rf "$work"  # another compiler may have been there
# The message names the wrong one and lists the right ones, among them all that this CPU runs.
message=$(cmake -G Ninja -S "$source" -B "$work" -DATTEND_TARGETS=NOPE 2>&1) && fail "ATTEND_TARGETS=NOPE was accepted"
message=$(tr -s '[:space:]' ' ' <<<"$message")
[[ $message == *'ATTEND_TARGETS has "NOPE", expected '* ]] || fail "no message about NOPE in: $message"
if (($#)); then
  # One more at most: what must run anywhere.
  unnamed=
  for target in $available; do
    [[ " $* " == *" $target "* ]] || unnamed+=" $target"
  done
  [[ $unnamed != *" "*" "* ]] || fail "ATTEND_TARGETS names $*; the library also has$unnamed"
else
  for target in $available; do
    [[ $message == *[\ ,]"$target"[\ ,]* ]] || fail "$target is not listed in: $message"
  done
fi
