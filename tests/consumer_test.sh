#!/bin/sh
# Installs the build into an empty directory and builds samples/cpp and samples/c against it, by CMake and by pkg-config;
# each installed header compiles alone.
#
#   consumer_test.sh SOURCE_DIR BUILD_DIR
set -eu
source=$1 build=$2
# The test may run with a small stack, which is too small for CMake.
stack=$(ulimit -S -s)
ulimit -S -s 8192 2>/dev/null || true
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
model=$source/samples/models/lenet_scripted

cmake --install "$build" --prefix "$work/prefix" >"$work/install.log"
"$work/prefix/bin/tscompile" version
for page in man/man1/tscompile.1 man/man1/tscompile-run.1 bash-completion/completions/tscompile zsh/site-functions/_tscompile \
  fish/vendor_completions.d/tscompile.fish; do
  [ -s "$work/prefix/share/$page" ] || { printf '%s\n' "there is no $page"; exit 1; }
done
# The tree can be moved.
mv "$work/prefix" "$work/moved"

check() {
  (ulimit -S -s "$stack" && "$1" "$model/model.ir" "$model/weights.safetensors") | tee "$work/output"
  grep -q '^16 of 16 threads got the same bits$' "$work/output"
  grep -q '^output \[1, 10\]' "$work/output"
}

printf '%s\n' '== CMake'
cmake -S "$source/samples/cpp" -B "$work/cmake" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$work/moved" >"$work/configure.log"
cmake --build "$work/cmake"
check "$work/cmake/run_lenet"
"$work/cmake/run_model" "$source/samples/models/lenet_archive/model.pt" 2x1x32x32 | grep -qx 'output 0: f32 \[2, 10\]'
"$work/cmake/run_model" "$source/tests/data/archives/defaults_1.pt" 2x3 | grep -qx 'output 0: f32 \[2, 3\]'
PROFILE=1 "$work/cmake/run_model" "$source/samples/models/lenet_archive/model.pt" 2x1x32x32 | grep -q '"schema": *"tscompile.profile/1"'

printf '%s\n' '== pkg-config'
pc=$(dirname "$(find "$work/moved" -name tscompile.pc)")
flags=$(PKG_CONFIG_PATH=$pc pkg-config --cflags --libs tscompile eigen3)
# shellcheck disable=SC2086
c++ -O1 "$source/samples/cpp/run_lenet.cpp" -o "$work/run_lenet" $flags
check "$work/run_lenet"

printf '%s\n' '== samples as they are installed'
documents=$(dirname "$(find "$work/moved" -path '*samples/compiling')")
for name in compiling rewriting plugin; do
  cmake -S "$documents/$name" -B "$work/$name" -G Ninja -DCMAKE_PREFIX_PATH="$work/moved" >"$work/configure.log"
  cmake --build "$work/$name"
  ctest --test-dir "$work/$name" --output-on-failure
done

printf '%s\n' '== C, by CMake and by pkg-config'
cmake -S "$source/samples/c" -B "$work/c" -G Ninja -DCMAKE_PREFIX_PATH="$work/moved" \
  -DCMAKE_DISABLE_FIND_PACKAGE_fmt=1 -DCMAKE_DISABLE_FIND_PACKAGE_ZLIB=1 >"$work/configure.log" 2>&1
cmake --build "$work/c"
"$source/samples/c/compare.sh" "$work/c/run_model"
# With the packages of the C++ library there, that can be linked as well.
mkdir "$work/both"
cat >"$work/both/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.25)
project(both LANGUAGES C CXX)
find_package(tscompile REQUIRED COMPONENTS c)
add_executable(first $source/samples/c/run_model.c)
target_link_libraries(first PRIVATE tscompile::tscompile_c m)
add_executable(second $source/samples/cpp/run_model.cpp)
target_link_libraries(second PRIVATE tscompile::tscompile)
END
cmake -S "$work/both" -B "$work/both/build" -G Ninja -DCMAKE_PREFIX_PATH="$work/moved" >"$work/configure.log"
cmake --build "$work/both/build"
"$source/samples/c/compare.sh" "$work/both/build/first"
flags=$(PKG_CONFIG_PATH=$pc pkg-config --cflags --libs tscompile-c)
library=$(dirname "$(find "$work/moved" -name libtscompile_c.so.1)")
# shellcheck disable=SC2086
cc -std=c11 -Wall -Wextra -Wpedantic -Werror "$source/samples/c/run_model.c" -o "$work/run_model" $flags -lm
LD_LIBRARY_PATH=$library "$source/samples/c/compare.sh" "$work/run_model"
# Nothing else is exported, so nothing else can be relied on.
if nm -D --defined-only "$library/libtscompile_c.so.1" | grep -v ' tscompile_\| TSCOMPILE_C_[0-9]*$'; then exit 1; fi

printf '%s\n' '== a plugin'
mkdir "$work/own_plugin"
awk '/^```cmake$/ { take = 1; next } /^```$/ { take = 0 } take' "$source/docs/plugins.md" >"$work/own_plugin/CMakeLists.txt"
cp "$source/samples/plugin/squared_relu.cpp" "$work/own_plugin"
cmake -S "$work/own_plugin" -B "$work/own_plugin/build" -G Ninja -DCMAKE_PREFIX_PATH="$work/moved" \
  -DCMAKE_DISABLE_FIND_PACKAGE_fmt=1 -DCMAKE_DISABLE_FIND_PACKAGE_ZLIB=1 >"$work/configure.log" 2>&1
cmake --build "$work/own_plugin/build"
"$work/moved/bin/tscompile" plugins check "$work/own_plugin/build/squared_relu.so"

printf '%s\n' '== headers'
flags=$(PKG_CONFIG_PATH=$pc pkg-config --cflags tscompile)
find "$work/moved/include/tscompile" -name '*.h' | sort >"$work/headers"
# shellcheck disable=SC2086
xargs -P 2 -I{} c++ $flags -Wall -Werror -fsyntax-only -x c++ -include {} /dev/null <"$work/headers"
printf '%s headers\n' "$(wc -l <"$work/headers")"
