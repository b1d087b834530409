#!/usr/bin/env bash
# README's two commands on a bare Debian 12 with git, a compiler and Python, in a chroot: what `dev` forgets to install is
# missing there. Needs root.
#
#   fresh.sh SOURCE_DIR WORK_DIR [COMMAND...]     commands of ./dev; default: demo test
set -euo pipefail
source=$1 work=$2
shift 2
[ $# -gt 0 ] || set -- demo test
[ "$(id -u)" = 0 ] || { echo "fresh: needs root, for chroot" >&2; exit 2; }
mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2>/dev/null |
  sed -nE 's/^(deb|URIs:) +([^ ]*:\/\/[^ ]+).*/\2/p' | grep -v security | head -n 1) || true
mirror=${mirror:-http://deb.debian.org/debian}

if [ ! -f "$work/ready" ]; then
  rm -rf "$work"
  mkdir -p "$work"
  debootstrap --variant=minbase --include=git,g++,python3,ca-certificates bookworm "$work/root" "$mirror"
  # The ways to the packages are the machine's.
  cp /etc/resolv.conf "$work/root/etc/" 2>/dev/null || true
  rm -f "$work/root/etc/apt/sources.list"
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources; do
    [ ! -f "$file" ] || cp "$file" "$work/root$file"
  done
  cp /etc/apt/apt.conf.d/*proxy* "$work/root/etc/apt/apt.conf.d/" 2>/dev/null || true
  touch "$work/ready"
fi

mounts=()
cleanup() {
  local at
  for at in "${mounts[@]}"; do umount "$at" || true; done
}
trap cleanup EXIT
mount -t proc proc "$work/root/proc" && mounts=("$work/root/proc")
mount --bind /dev "$work/root/dev" && mounts=("$work/root/dev" "${mounts[@]}")
mount --bind /dev/pts "$work/root/dev/pts" && mounts=("$work/root/dev/pts" "${mounts[@]}")  # terminals

# A clone, as a user has one.
rm -rf "$work/root/src"
git clone -q "$source" "$work/root/src"
for command in "$@"; do
  echo "== ./dev $command on a bare Debian" >&2
  env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
    ${DEV_WERROR:+DEV_WERROR="$DEV_WERROR"} \
    chroot "$work/root" /bin/bash -c "cd /src && ./dev $command"
done
