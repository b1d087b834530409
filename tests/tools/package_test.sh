#!/usr/bin/env bash
# The packages on a bare Debian 12, in a chroot: the tarball runs before anything is installed; the package installs, runs,
# brings what it should, and leaves nothing when it is removed. Needs root.
#
#   package_test.sh SOURCE_DIR PACKAGES_DIR WORK_DIR
set -euo pipefail
source=$1 packages=$2 work=$3
[ "$(id -u)" = 0 ] || { echo "package-test: needs root, for chroot" >&2; exit 2; }
mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2>/dev/null |
  sed -nE 's/^(deb|URIs:) +([^ ]*:\/\/[^ ]+).*/\2/p' | grep -v security | head -n 1) || true
mirror=${mirror:-http://deb.debian.org/debian}
faults=0
fault() { echo "fault: $*" >&2; faults=1; }
say() { printf '\033[1m== %s\033[0m\n' "$*" >&2; }

if [ ! -f "$work/bare.tar" ]; then
  say "a bare Debian"
  rm -rf "$work"
  mkdir -p "$work"
  debootstrap --variant=minbase bookworm "$work/root" "$mirror" >"$work/debootstrap.log"
  tar -C "$work/root" -cf "$work/bare.tar" .
fi
rm -rf "$work/root"
mkdir -p "$work/root"
tar -C "$work/root" -xf "$work/bare.tar"
# The ways to the packages are the machine's.
cp /etc/resolv.conf "$work/root/etc/" 2>/dev/null || true
rm -f "$work/root/etc/apt/sources.list"
for file in /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources; do
  [ ! -f "$file" ] || cp "$file" "$work/root$file"
done
cp /etc/apt/apt.conf.d/*proxy* "$work/root/etc/apt/apt.conf.d/" 2>/dev/null || true
trap 'umount "$work/root/proc" "$work/root/dev" 2>/dev/null || true' EXIT
mount -t proc proc "$work/root/proc"
mount --bind /dev "$work/root/dev"
inside() {
  env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
    chroot "$work/root" /bin/sh -ec "$*"
}
# All that is there, but for what apt and dpkg keep of what they did.
listing() {
  (cd "$work/root" && find . -xdev \( -path ./proc -o -path ./dev -o -path ./var/lib/apt -o -path ./var/cache -o \
    -path ./var/log -o -path ./var/lib/dpkg -o -path ./tmp \) -prune -o ! -type d -print -o -type d -print | LC_ALL=C sort)
}
cp "$packages"/tscompile_*.deb "$packages"/tscompile-*.tar.gz "$work/root/tmp/"
cp -R "$source/samples/models/lenet_archive" "$work/root/tmp/lenet"
run="cd /tmp/lenet && set -- && while read -r line; do set -- \"\$@\" --input \"\$line\"; done <inputs.txt && tscompile run -q model.pt \"\$@\""

# What README says first, and what its links and those of the other documents lead to; the argument is the prefix.
documents() {
  inside "export PATH=$1/bin:\$PATH; rm -rf /tmp/try && cp -R $1/share/doc/tscompile /tmp/try && cd /tmp/try &&
    tscompile run -q samples/models/lenet_archive/model.pt --input 'x=1x1x32x32:f32:randn(seed=0)' >/dev/null"
  python3 "$source/tests/documents_test.py" "$work/root$1/share/doc/tscompile" >&2
}

say "the tarball, moved, where nothing is installed"
inside "mkdir /tmp/tree && tar -C /tmp/tree --strip-components=1 -xzf /tmp/tscompile-*.tar.gz && mv /tmp/tree /tmp/moved"
inside "export PATH=/tmp/moved/bin:\$PATH; $run" >"$work/tarball.out" || fault "the tarball does not run"
documents /tmp/moved || fault "the documents of the tarball"
inside "rm -rf /tmp/moved /tmp/tscompile-*.tar.gz"

say "the package"
inside "apt-get update -qq"
listing >"$work/before"
inside "apt-get install -y -qq --download-only /tmp/tscompile_*.deb" >"$work/apt.log" 2>&1
start=$(date +%s%N)
inside "apt-get install -y -qq /tmp/tscompile_*.deb" >>"$work/apt.log" 2>&1
inside "$run" >"$work/package.out" || fault "the package does not run"
milliseconds=$((($(date +%s%N) - start) / 1000000))
say "installed and run in $milliseconds ms"
documents /usr || fault "the documents of the package"
cmp -s "$work/tarball.out" "$work/package.out" || fault "the package and the tarball print different results"
grep -q 10 "$work/package.out" || fault "no result of LeNet: $(cat "$work/package.out")"

libraries=$(inside "ldd /usr/bin/tscompile" | sed -nE 's/^\s*(lib[^ ]+)\.so.*/\1/p' | LC_ALL=C sort | tr '\n' ' ')
[ "$libraries" = "libc libfmt libgcc_s libm libmvec libre2 libstdc++ libutf8proc libz " ] || fault "the tool uses $libraries"
bytes=$(stat -c %s "$work/root/usr/bin/tscompile")
[ "$bytes" -le $((24 * 1024 * 1024)) ] || fault "the tool has $bytes bytes"
inside "ldconfig -p" >"$work/libraries"
grep -q libtscompile_c.so.1 "$work/libraries" || fault "ldconfig does not know the library"
dpkg-deb -c "$packages"/tscompile_*.deb >"$work/files"
for file in man/man1/tscompile.1.gz man/man1/tscompile-run.1.gz bash-completion/completions/tscompile \
  zsh/vendor-completions/_tscompile fish/vendor_completions.d/tscompile.fish doc/tscompile/copyright \
  doc/tscompile/THIRD_PARTY.md doc/tscompile/docs/c.md doc/tscompile/examples/c/run_model.c; do
  grep -q "/$file\$" "$work/files" || fault "there is no $file"
done

say "the same without OpenBLAS"
inside "apt-get purge -y -qq libopenblas0-pthread libopenblas0 && apt-get autoremove --purge -y -qq" >>"$work/apt.log" 2>&1 || true
inside "$run" >"$work/plain.out" || fault "it does not run without OpenBLAS"

say "removed"
inside "apt-get purge -y -qq tscompile && apt-get autoremove --purge -y -qq" >>"$work/apt.log" 2>&1
listing >"$work/after"
diff "$work/before" "$work/after" >"$work/left" || fault "what is left or gone: $(head -20 "$work/left")"
[ $faults = 0 ] && say "all is well"
exit $faults
