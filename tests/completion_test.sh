#!/bin/bash
# What the completion for bash offers, in a folder whose files have blanks; the scripts of zsh and fish where these shells
# are there.
#
#   completion_test.sh TOOL
set -eu
tool=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
touch 'my model.ir' model.ir
mkdir 'out folder'
complete() { :; }  # the one of bash needs a terminal
# shellcheck disable=SC1090
source <("$tool" completion bash)
faults=0
offers() {
  local expected=$1
  shift
  COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
  _tscompile
  local got
  got=$(printf '%s\n' "${COMPREPLY[@]}" | LC_ALL=C sort | paste -sd'|')
  [ "$got" = "$expected" ] || { echo "'$*' offers '$got', not '$expected'" >&2; faults=1; }
}
offers 'my model.ir' tscompile run 'my'
offers 'my model.ir' tscompile run 'my\ mo'
offers 'my model.ir' tscompile run '"my mo'
offers 'model.ir|my model.ir' tscompile run m
offers 'model.ir' tscompile run --weights mod
offers 'model.ir' tscompile run --plugin mod
offers 'model.ir' tscompile refit mod
offers 'out folder' tscompile run --outputs o
offers '@my model.ir' tscompile run --input x = @my
offers 'engine' tscompile run --executor e
offers 'engine' tscompile run --executor = e
offers 'engine|interpreter' tscompile run --executor =
offers 'model.ir|my model.ir|out folder' tscompile run ''
offers 'check|list|show' tscompile plugins ''
offers 'bench' tscompile schema be
offers 'bind_inputs' tscompile lower --passes bind_i
offers 'text=' tscompile run --limit tex
offers 'compile|completion' tscompile comp
offers 'bash' tscompile completion b
offers '--weights' tscompile run --wei
for shell in zsh fish; do
  if command -v $shell >/dev/null; then
    "$tool" completion $shell >"script.$shell"
    $shell -n "script.$shell"
  else
    echo "no $shell: its script was not read"
  fi
done
exit $faults
