#!/usr/bin/env bash
# Python 3.13 of Debian 13 for Debian 12, which has 3.11 alone: a folder whose interpreter is told where the C library of the
# same folder is. Prints the Python to call. Needs root, for debootstrap.
#
#   newer_python.sh FOLDER PATCHELF
set -euo pipefail
folder=$1 patchelf=$2
python=$folder/usr/bin/python3.13
if [ ! -f "$folder/ready" ]; then
  mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2>/dev/null |
    sed -nE 's/^(deb|URIs:) +([^ ]*:\/\/[^ ]+).*/\2/p' | grep -v security | grep debian | head -n 1) || true
  rm -rf "$folder"
  mkdir -p "$folder"
  debootstrap --variant=minbase --include=python3-dev,python3-pip-whl trixie "$folder" "${mirror:-http://deb.debian.org/debian}" \
    >"$folder.log"
  # What modules load is looked for there too, which is what an RPATH is for.
  "$patchelf" --set-interpreter "$folder/lib64/ld-linux-x86-64.so.2" --force-rpath \
    --set-rpath "$folder/usr/lib/x86_64-linux-gnu" "$python"
  touch "$folder/ready"
fi
echo "$python"
