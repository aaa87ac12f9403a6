#!/usr/bin/env bash
# Builds attend_bench and measures every instruction set this CPU has, fairly; then makes a report of it.
set -euo pipefail

usage() {
  cat <<'END'
usage: tools/bench.sh [--quick] [--filter REGEX] [--threads N] [--out DIR] [--no-build]
  --quick         the main cases only, 3 repetitions: 2 min 24 s on two cores; else several times as long, 5 repetitions
  --filter REGEX  of these cases only those whose names match (extended regular expression, as of grep -E)
  --threads N     scaling on 1 to N threads; default: the cores this process may use
  --out DIR       where to write; default: build/bench
  --no-build      take build/release/bench/attend_bench as it is
Writes into DIR: raw/*.json (Google Benchmark), raw/commands.txt, summary.csv, report.html, plots/*.svg and .png;
empties DIR/raw first. The report needs python3-matplotlib; without it there are JSON and summary.csv.

What uses no oneDNN runs in one process for kernels and one for dot, multi_head and softmax, all targets interleaved at
random, so that a slow minute hits all alike. What does (additive, contenders) runs in a process per target,
with oneDNN held to the same instruction set by ONEDNN_MAX_CPU_ISA, which counts once per process. Each process is
pinned to one core by taskset, that of thread scaling to N.
END
}

wrong_usage() {
  echo "tools/bench.sh: $1" >&2
  usage >&2
  exit 2
}

called="tools/bench.sh${*:+ ${*@Q}}"
quick=no filter='' threads='' out='' must_build=yes
while (($# > 0)); do
  case "$1" in
    --quick) quick=yes ;;
    --no-build) must_build=no ;;
    --filter | --threads | --out)
      (($# > 1)) || wrong_usage "$1 needs a value"
      declare "${1#--}=$2"
      shift ;;
    -h | --help) usage; exit 0 ;;
    *) wrong_usage "unknown argument \"$1\"" ;;
  esac
  shift
done
# shellcheck source=tools/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

mapfile -t cores < <(usable_cores)
threads=${threads:-${#cores[@]}}
[[ $threads =~ ^[1-9][0-9]*$ ]] || wrong_usage "--threads is \"$threads\", expected a number from 1 to ${#cores[@]}"
((threads <= ${#cores[@]})) || wrong_usage "--threads is $threads, but this process may use ${#cores[@]} cores only"
[[ -z $filter ]] || grep -qE -- "$filter" <<<'' 2>/dev/null || (($? == 1)) ||
  wrong_usage "--filter is \"$filter\", expected an extended regular expression"
out=${out:-$root/build/bench}
raw=$out/raw
bench=$root/build/release/bench/attend_bench

if [[ $must_build == yes ]]; then
  say "packages"
  install_missing
  build release attend_bench
fi
[[ -x $bench ]] || wrong_usage "--no-build, but there is no build/release/bench/attend_bench"
mkdir -p "$raw"
rm -f "$raw"/*.json "$raw"/*.partial "$raw"/*.log
echo "$called" >"$raw/commands.txt"

repetitions=5 min_time=0.05
[[ $quick == no ]] || repetitions=3 min_time=0.02

# pin N COMMAND...: on the first N of the cores; without taskset, wherever the system puts it.
pin() {
  local count=$1 list
  shift
  if command -v taskset >/dev/null; then
    list=$(IFS=,; echo "${cores[*]:0:count}")
    taskset -c "$list" "$@"
  else
    "$@"
  fi
}

# names CASES: as a regular expression that fits exactly those of CASES that --filter lets through; nothing if none.
names() {
  if [[ -z $filter ]]; then
    echo "$1"
    return
  fi
  local listed
  listed=$(pin "$threads" "$bench" --benchmark_list_tests --benchmark_filter="$1" |
    { grep -E -- "$filter" || true; } | paste -sd '|')
  [[ -z $listed ]] || echo "^($listed)\$"
}

# measure NAME CORES CASES [OPTION...]: one process, into raw/NAME.json. The environment is the caller's.
measure() {
  local name=$1 count=$2 cases
  cases=$(names "$3")
  shift 3
  if [[ -z $cases ]]; then
    echo "$name: no case matches --filter"
    return
  fi
  local command=(attend_bench --benchmark_filter="$cases" --benchmark_min_time="$min_time"
                 --benchmark_repetitions="$repetitions" "$@")
  local held=${ONEDNN_MAX_CPU_ISA:+ONEDNN_MAX_CPU_ISA=$ONEDNN_MAX_CPU_ISA }
  echo "$held$(pin_words "$count")${command[*]@Q}" >>"$raw/commands.txt"
  local start=$SECONDS
  # The console output holds what the JSON holds. Written under another name first: no half-written results.
  pin "$count" "$bench" "${command[@]:1}" --benchmark_out="$raw/$name.partial" --benchmark_out_format=json \
    >"$raw/$name.log" 2>&1 || { tail -5 "$raw/$name.log" >&2; echo "tools/bench.sh: $name failed" >&2; return 1; }
  mv "$raw/$name.partial" "$raw/$name.json"
  rm "$raw/$name.log"
  echo "$name: $((SECONDS - start)) s"
}

pin_words() {
  if command -v taskset >/dev/null; then echo "taskset -c $(IFS=,; echo "${cores[*]:0:$1}") "; fi
}

# oneDNN's name of a target's instruction set; "" where it is to choose for itself: it has none of these names on Arm,
# and for the newest targets nothing that f32 products would use beyond what it takes anyway.
onednn_cap() {
  case "$1" in
    AVX3) echo AVX512_CORE ;;
    AVX2) echo AVX2 ;;
    SSE4 | SSSE3 | SSE2) echo SSE41 ;;
    SCALAR | EMU128) [[ $(uname -m) == x86_64 ]] && echo SSE41 || echo "" ;;
    *) echo "" ;;
  esac
}

# The targets this CPU runs, best first: those that the peak is measured for.
mapfile -t targets < <(pin 1 "$bench" --benchmark_list_tests --benchmark_filter='^machine/fma_peak/' | sed 's|.*/||')

lengths='^length/(dot|decode|masked_softmax)_n'
if [[ $quick == yes ]]; then
  kernels='^machine/|^tile_product/(qk|pv)_m32|^few_rows/decode_b(nhd|hnd)_r4_n4096_d128_block(8|16)(_l1(_twice)?|_thrice|_then_l1)?/|^linear/r(16|256)_i768_o768/[A-Z]'
  dot='^dot/(b1_h12_m512_n512_d64|b4_h8_m16_n1024_d64|b1_h32_kv8_m1_n4096_d128)/[^/]*$|^masked_softmax/r4096_n1024'
  dot+='|^multi_head/b8_s128_e768_h12/'
  dot+="|$lengths(16|64|256|1024|4096)/|${lengths}16384/(AVX|SVE|NEON)"
  layers='(additive/b1_m128_n512_u256|length/additive_n(16|64|256|1024|4096|16384))'
  contest='(linear/r(16|256)_i768_o768|dot_(materialised|graph)/b1_h12_m512_n512_d64|additive_eager/b1_m128_n512_u256)'
  map='^planner_map/.*_m(1|4|16|64|256)_n(16|256|4096)_'
else
  kernels='^(machine|pack_keys|pack_values|pack_queries|pack_lanes|tile_product|tile_pairs|value_pairs|tile_parts|dot_tile|softmax_tile_step|query_lanes|few_rows'
  kernels+='|masked_softmax_rows|additive_score|additive_hwy_tanh)/|^linear/.*/[A-Z]'  # linear/*/oneDNN: below
  # Not *_threads2, whose names go on; not 2048 x 2048 by one lane at a time, which takes minutes.
  dot='^(masked_softmax|dot_naive|overhead|gaussian)/|^multi_head/[a-z0-9_]*/[^/]*$|^dot/[^/]*(n512|n32|n1024|n4096)_[^/]*/[^/]*$'
  dot+="|^dot/[^/]*n2048_[^/]*/(AVX|SS|SVE|NEON)[^/]*\$|$lengths"
  layers='((additive|additive_rational|bilinear)/[a-z0-9_]*|length/additive_n[0-9]*)'
  contest='(linear|dot_materialised|dot_graph|additive_eager)/.*'
  map='^planner_map/'
fi

say "what uses no oneDNN: ${targets[*]}, in one process each"
measure kernels 1 "$kernels" --benchmark_enable_random_interleaving=true
measure dot 1 "$dot" --benchmark_enable_random_interleaving=true
say "what uses oneDNN: a process per target"
last_cap=none
for target in "${targets[@]}"; do
  cap=$(onednn_cap "$target")
  cases="^$layers/$target\$"
  # oneDNN's own rows are once per instruction set of oneDNN's.
  [[ $cap == "$last_cap" ]] || cases+="|^$contest/oneDNN\$"
  last_cap=$cap
  echo "$target: oneDNN held to ${cap:-nothing, it takes the best it has}"
  if [[ -n $cap ]]; then export ONEDNN_MAX_CPU_ISA=$cap; else unset ONEDNN_MAX_CPU_ISA; fi
  measure "onednn_$target" 1 "$cases" --benchmark_context="bench_target=$target"
done
unset ONEDNN_MAX_CPU_ISA
say "threads: 1 to $threads"
# Not at random: a virtual core that one thread left idle may have to share a real one for 0.1 s when work comes.
measure threads "$threads" '^threads/' --benchmark_min_warmup_time=0.3
say "the planner's choices"
repetitions=1 measure planner_map 1 "$map"

say "report"
"$(python_with_matplotlib)" "$root/tools/bench_report.py" "$out"
