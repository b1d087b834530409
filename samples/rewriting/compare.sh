#!/bin/sh
# Runs a program and compares what it prints with a file: compare.sh PROGRAM EXPECTED
set -eu
output=$("$1")
printf '%s\n' "$output" | diff -u "$2" -
