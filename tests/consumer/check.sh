#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# check.sh BUILD QUIRED [CXX]: installs the client library of the build directory BUILD into an empty prefix and
# uses it as others do:
#   each installed header compiles alone, with the prefix as the only include path;
#   tests/consumer is built by find_package(quire) and by pkg-config;
#   both programs put, recall and fetch against the server QUIRED.
set -euo pipefail
build=$(realpath "$1") quired=$(realpath "$2") cxx=${3:-c++}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
server=
clean_up() {
  # The server writes its directory until it has ended.
  [[ -z $server ]] || { kill "$server" && wait "$server"; } 2>/dev/null || true
  rm -rf "$work"
}
trap clean_up EXIT

cmake --install "$build" --component client --prefix "$work/prefix" >/dev/null
prefix=$work/prefix

for header in "$prefix"/include/quire/*.h; do
  name=quire/${header##*/}
  printf '#include <%s>\n#include <%s>\n' "$name" "$name" |
    "$cxx" -std=c++20 -Wall -Wextra -Werror -fsyntax-only -I "$prefix/include" -x c++ - ||
    { echo "$name does not compile alone" >&2; exit 1; }
done

cmake -S "$here" -B "$work/cmake" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_CXX_COMPILER="$cxx" >/dev/null
cmake --build "$work/cmake" >/dev/null
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name quire.pc)") make -s -C "$here" CXX="$cxx" BUILD="$work"

mkfifo "$work/says"
"$quired" --data-dir "$work/data" --listen 127.0.0.1:0 --dram-bytes 16MiB >"$work/says" 2>"$work/log" &
server=$!
exec {says}<"$work/says"
read -r line <&"$says" || { cat "$work/log" >&2; exit 1; }
address=${line#quired listening on }
"$work/cmake/put_recall_fetch" "$address"
"$work/put_recall_fetch" "$address"
