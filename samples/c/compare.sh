#!/bin/sh
# compare.sh PROGRAM: runs it on LeNet and compares what it prints.
set -eu
here=$(dirname "$0") model=$(dirname "$0")/../models/lenet_scripted
"$1" "$model/model.ir" "$model/weights.safetensors" | diff -u "$here/run_model.expected" -
