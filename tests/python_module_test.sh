#!/bin/sh
# The Python module over this build's library: with what `./dev wheel` has installed it is brought up to date first, elsewhere
# the one is tested that PYTHON has.
#
#   python_module_test.sh SOURCE_DIR BUILD_DIR PYTHON
set -eu
source=$1 build=$2 python=$3
makes=$source/build/venv/wheel-$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
if [ ! -f "$makes/ready" ] || [ "$build" != "$source/build/release" ]; then
  exec "$python" "$source/tests/python/module_test.py"
fi
# The test may run with a small stack, which is too small for compilers.
stack=$(ulimit -S -s)
ulimit -S -s 8192 2>/dev/null || true
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd "$source" && "$makes/bin/pip" wheel -q . --no-deps --no-build-isolation -w "$work")
"$python" -m zipfile -e "$work"/*.whl "$work/module"
cd "$work"
ulimit -S -s "$stack"
PYTHONPATH=$work/module "$python" "$source/tests/python/module_test.py"
