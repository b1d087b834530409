#!/bin/sh
# What docs/plugins.md tells, on the command line and from C++: use_plugin.sh TSCOMPILE PROGRAM LIBRARY
set -eu
tool=$1 program=$2 library=$3
here=$(dirname "$(realpath "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$program" "$library" | diff -u "$here/use_plugin.expected" -

"$tool" plugins check "$library" | grep -q 'nothing found'
"$tool" rewrite "$here/model.ir" --rules "$here/squared_relu.rules" --plugin "$library" -o "$work/rewritten.ir"
grep -q 'sample::SquaredRelu' "$work/rewritten.ir"
cd "$work"
TSCOMPILE_LOAD_PLUGINS=$library "$tool" compile -q rewritten.ir -o model.tse
inputs='--input x=4x3:f32:randn(seed=1) --input w=3x8:f32:randn(seed=2) --input v=8x2:f32:randn(seed=3)'
# shellcheck disable=SC2086
"$tool" run -q "$here/model.ir" $inputs --outputs plain
# shellcheck disable=SC2086
"$tool" run -q model.tse --plugin "$library" --verify-plugins $inputs --outputs plugin
"$tool" inspect -q model.tse --plugin "$library" >/dev/null
/usr/bin/python3 "$here/../compare.py" plain plugin
