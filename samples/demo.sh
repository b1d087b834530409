#!/bin/sh
# Runs the sample models with a tscompile binary and compares what comes out with PyTorch's own outputs.
#
#   samples/demo.sh TSCOMPILE
set -eu
tool=$(realpath "$1")
samples=$(dirname "$(realpath "$0")")
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
failed=0
# The Python that has numpy: another one may stand first on the path.
python=python3
"$python" -c 'import numpy' 2>/dev/null || python=/usr/bin/python3

# run MODEL TEXT [WEIGHTS]
run() {
  cd "$samples/models/$1"
  shown="tscompile run ${2##*/}${3:+ --weights $3}"
  set -- "$2" "${3:-}"
  text=$1 weights=$2
  set -- "$text"
  [ -z "$weights" ] || set -- "$@" --weights "$weights"
  while IFS= read -r line; do
    set -- "$@" --input "$line"
    shown="$shown --input '$line'"
  done <inputs.txt
  printf '%s$ %s\n' "" "$shown"
  "$tool" run -q "$@"
  "$tool" run -q "$@" --outputs "$out/got"
  printf '  equal to PyTorch? '
  "$python" "$samples/compare.py" "$out/got" expected || failed=1
  rm -rf "$out/got"
}

printf '\nLeNet, as torch.jit.save wrote it\n'
run lenet_archive model.pt
for how in traced scripted; do
  printf '\nLeNet, %s\n' "$how"
  cd "$samples/models/lenet_$how"
  printf '$ tscompile parse model.graph\n'
  "$tool" parse model.graph
  run "lenet_$how" model.dump weights.safetensors
  run "lenet_$how" model.ir weights.safetensors
  run "lenet_$how" frozen.ir frozen.safetensors
done
printf '\nLeNet, cut into segments, compiled, saved, loaded in another process\n'
cd "$samples/models/lenet_scripted"
printf '$ tscompile partition frozen.ir\n'
"$tool" partition frozen.ir
printf '$ tscompile compile frozen.ir --weights frozen.safetensors -o lenet.tse\n'
(cd "$out" && "$tool" compile "$samples/models/lenet_scripted/frozen.ir" \
  --weights "$samples/models/lenet_scripted/frozen.safetensors" -o lenet.tse)
run lenet_scripted "$out/lenet.tse"
printf '\nOperators of an engine and of the interpreter take turns in the text; three blocks are enough\n'
cd "$samples/partitioning"
options='--min-block-size 1 --torch-executed-op aten::lgamma'
printf '$ tscompile partition interleaved.ir %s\n' "$options"
"$tool" partition interleaved.ir $options
printf '$ tscompile compile interleaved.ir %s -o interleaved.tse\n' "$options"
(cd "$out" && "$tool" compile "$samples/partitioning/interleaved.ir" $options -o interleaved.tse)
for graph in interleaved.ir "$out/interleaved.tse"; do
  printf '$ tscompile run %s --input x=... --input y=... --print\n' "$(basename "$graph")"
  "$tool" run "$graph" --input 'x=2x2:f32=[1.5 2.5; 3.5 4.5]' --input 'y=2x2:f32=[0.5 2; 4 8]' --print
done
printf '\nResNet-18\n'
run resnet18 model.ir model.weights
printf '\nLoops and conditions\n'
run loops model.dump weights.safetensors
printf '\nLists, dicts and strings\n'
run strings model.ir
exit $failed
