#!/usr/bin/env bash
# A Debian package and a tarball that can be moved, of a build; the same build gives the same bytes.
#
#   package.sh SOURCE_DIR BUILD_DIR OUT_DIR
set -euo pipefail
source=$1 build=$2 out=$3
version=$(sed -nE 's/^CMAKE_PROJECT_VERSION:STATIC=(.*)/\1/p' "$build/CMakeCache.txt")
architecture=$(dpkg --print-architecture)
# All files are as old as what they were made from.
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$source" log -1 --format=%ct 2>/dev/null || echo 0)}
export LC_ALL=C TZ=UTC
umask 022
mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# What both have, below a prefix: all that is installed, stripped.
stage() {
  local prefix=$1
  cmake --install "$build" --prefix "$prefix" --strip >"$work/install.log"
  strip --strip-debug --enable-deterministic-archives "$prefix"/lib/libtscompile.a
  strip --remove-section=.comment --remove-section=.note "$prefix"/bin/tscompile "$prefix"/lib/libtscompile_c.so.1.*
  gzip -9n "$prefix"/share/man/man1/*.1
}
aged() { find "$1" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +; }

tarball() {
  local name=tscompile-$version-linux-$(uname -m) tree
  tree=$work/$name
  stage "$tree"
  # What is not part of every system.
  mkdir -p "$tree/lib/tscompile"
  ldd "$build/tools/tscompile" | sed -nE 's/.*(lib(fmt|re2|utf8proc|z)\.so[^ ]*) => ([^ ]+).*/\1 \3/p' |
    while read -r library path; do cp -L "$path" "$tree/lib/tscompile/$library"; done
  aged "$tree"
  tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --format=gnu -cf - "$name" | gzip -9n >"$out/$name.tar.gz"
}

deb() {
  local tree=$work/deb doc depends triplet
  stage "$tree/usr"
  doc=$tree/usr/share/doc/tscompile
  mkdir -p "$tree/DEBIAN" "$tree/usr/share/lintian/overrides" "$work/control/debian"
  # Debian's own names and places.
  rm "$doc/LICENSE"
  mv "$tree/usr/share/zsh/site-functions" "$tree/usr/share/zsh/vendor-completions"
  mv "$doc/samples" "$doc/examples"
  ln -s examples "$doc/samples"
  gzip -9n <"$doc/CHANGELOG.md" >"$doc/NEWS.md.gz" && rm "$doc/CHANGELOG.md"
  printf 'tscompile (%s) unstable; urgency=medium\n\n  * %s\n\n -- %s  %s\n' "$version" \
    'See NEWS.md.gz for what is new.' 'The tscompile authors <tscompile@localhost.localdomain>' \
    "$(date -R -d "@$SOURCE_DATE_EPOCH")" | gzip -9n >"$doc/changelog.gz"
  {
    printf '%s\n' 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/' \
      'Upstream-Name: tscompile' '' 'Files: *' \
      "Copyright: $(date -d "@$SOURCE_DATE_EPOCH" +%Y) the tscompile authors" 'License: Apache-2.0' '' \
      'License: Apache-2.0' ' On Debian systems, the text is in /usr/share/common-licenses/Apache-2.0.' \
      'Comment: THIRD_PARTY.md has the notices of what is compiled in.'
  } >"$doc/copyright"
  # Where Debian's pkg-config looks, for other architectures too.
  triplet=$(dpkg-architecture -qDEB_HOST_MULTIARCH)
  mkdir -p "$tree/usr/lib/$triplet"
  mv "$tree/usr/lib/pkgconfig" "$tree/usr/lib/$triplet/"
  sed -i 's,^prefix=.*,prefix=${pcfiledir}/../../..,' "$tree/usr/lib/$triplet/pkgconfig/"*.pc
  # Samples are read and copied, not run where they are; the script that exports models runs with the user's PyTorch.
  chmod -x "$tree/usr/share/tscompile/"*.py
  find "$doc/samples" -type f -exec chmod 644 {} +
  sed -i '1{/^#!/d}' "$tree/usr/share/tscompile/"*.py
  cat >"$tree/usr/share/lintian/overrides/tscompile" <<'END'
# One package for the tool, the headers and the C interface, which belong to one version.
tscompile: package-name-doesnt-match-sonames *
tscompile: link-to-shared-library-in-wrong-package *
# Made outside of Debian: there is no address for its mail.
tscompile: bogus-mail-host Maintainer *
tscompile: bogus-mail-host-in-debian-changelog *
END
  printf 'Source: tscompile\n\nPackage: tscompile\nArchitecture: any\n' >"$work/control/debian/control"
  depends=$(cd "$work/control" && dpkg-shlibdeps -O --ignore-missing-info "$tree/usr/bin/tscompile" \
    "$tree"/usr/lib/libtscompile_c.so.1.* 2>/dev/null | sed -n 's/^shlibs:Depends=//p')
  aged "$tree"
  cat >"$tree/DEBIAN/control" <<END
Package: tscompile
Version: $version
Section: science
Priority: optional
Architecture: $architecture
Maintainer: The tscompile authors <tscompile@localhost.localdomain>
Installed-Size: $(du -sk --apparent-size --exclude=DEBIAN "$tree" | cut -f1)
Depends: $depends
Recommends: libopenblas0-pthread | libopenblas0
Suggests: libfmt-dev, libre2-dev, libutf8proc-dev, zlib1g-dev, pkg-config
Description: compiler and runtime for TorchScript models on CPUs
 Reads the graph text of TorchScript, archives of torch.jit.save and programs of
 torch.export without LibTorch, compiles them to engines for the CPU and runs
 them.
 .
 This package has the command line tool, the C++ library, the C interface,
 headers, samples and documentation.
END
  printf 'libtscompile_c 1 tscompile (>= %s)\n' "$version" >"$tree/DEBIAN/shlibs"
  printf 'activate-noawait ldconfig\n' >"$tree/DEBIAN/triggers"
  (cd "$tree" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$tree/DEBIAN/md5sums"
  chmod 644 "$tree/DEBIAN/"*
  aged "$tree"
  dpkg-deb --root-owner-group -Zxz --build "$tree" "$out/tscompile_${version}_$architecture.deb" >"$work/deb.log"
}

tarball
deb
ls -l "$out" >&2
