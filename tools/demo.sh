#!/usr/bin/env bash
# The main job, on real input: runs the attention layers of two trained models through `attend`, compares them with PyTorch's
# own results and draws the alignments.
#   tools/demo.sh [OUTPUT_DIR]       default: build/demo
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
(($# <= 1)) && [[ ${1:-} != -* ]] || { echo "usage: tools/demo.sh [OUTPUT_DIR]" >&2; exit 2; }

out=${1:-$root/build/demo}
data=$root/tests/data/dates
attend=$root/build/release/tools/attend/attend

say "packages"
install_missing
build release
mkdir -p "$out"
out=$(cd "$out" && pwd)

# Sentences that the pictures show, by their place in the files.
sentences=(0 5)

# layer NAME TITLE WEIGHTS PREFIX COLUMN_LABELS WORDS...: one layer, from plan to pictures.
layer() {
  local name=$1 title=$2 weights=$3 prefix=$4 columns=$5 file=$data/$1.npz
  shift 5
  local words=("$@" --weights "$data/$weights" --prefix "$prefix" --queries "$file:queries" --valid-lens "$file:valid_lens")
  [[ $name == *self_attn ]] || words+=(--keys "$file:keys" --values "$file:values")
  say "$title ($name)"
  "$attend" plan "${words[@]}" --attention-weights
  "$attend" run "${words[@]}" --output "$out/$name.output.npy" --attention-weights "$out/$name.weights.npy"
  printf 'output against PyTorch:  '
  "$attend" compare "$out/$name.output.npy" "$file:output" --tolerance 1e-5
  printf 'weights against PyTorch: '
  "$attend" compare "$out/$name.weights.npy" "$file:attention_weights" --tolerance 2e-6
  local sentence type rows=$data/target.labels.txt
  [[ $name == *encoder* ]] && rows=$columns
  for sentence in "${sentences[@]}"; do
    local text
    text=$(sed -n "$((sentence + 1))p" "$data/sentences.txt" | sed 's/\t/ → /')
    for type in png svg; do
      "$attend" heatmap --attention-weights "$out/$name.weights.npy" --batch "$sentence" --title "$title: $text" \
        --row-labels "$rows" --column-labels "$columns" --output "$out/$name.$sentence.$type"
    done
  done
}

source_labels=$data/source.labels.txt
layer recurrent.decoder.attention "additive attention" recurrent.safetensors decoder.attention. "$source_labels" \
  --layer additive
layer transformer.encoder.self_attn "encoder self-attention" transformer.safetensors encoder.layers.0.self_attn. \
  "$source_labels" --layer multi-head --num-heads 4
layer transformer.decoder.self_attn "decoder self-attention" transformer.safetensors decoder.layers.0.self_attn. \
  "$data/target.inputs.labels.txt" --layer multi-head --num-heads 4
layer transformer.decoder.cross_attn "decoder cross-attention" transformer.safetensors decoder.layers.0.cross_attn. \
  "$source_labels" --layer multi-head --num-heads 4

say "done: outputs, weights and heatmaps (.png, .svg) are in $out"
echo "start with $out/recurrent.decoder.attention.0.png"
