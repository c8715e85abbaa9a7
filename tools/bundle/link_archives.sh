#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# link_archives.sh COMPILER ARG...: links static libraries in place of shared ones, where both exist. The
# libraries below stay shared, and are bundled.
set -euo pipefail

# UCX finds its modules relative to its library. OpenSSL and zlib are also used by cpp-httplib, which is
# shared only, and a process must have them once.
readonly SHARED='ucp|uct|ucs|ucm|ssl|crypto|z'

archive_of() { # Library name -> its archive; empty if it stays shared.
  [[ $1 =~ ^($SHARED)$ ]] && return
  local path
  path=$("$compiler" -print-file-name="lib$1.a")
  [[ $path == /* ]] && printf '%s' "$path"
}

# Dependencies of static libraries that shared ones load by themselves.
readonly NEEDED=(-lsnappy -llz4 -lbz2)

compiler=$1
shift
arguments=()
for word in "$@" "${NEEDED[@]}"; do
  name=''
  case $word in
    /*/lib*.so | /*/lib*.so.*)
      name=${word##*/lib}
      name=${name%%.so*}
      ;;
    -l*) name=${word#-l} ;;
  esac
  archive=''
  case $name in '' | dl | m | rt | pthread | atomic) ;; *) archive=$(archive_of "$name") || true ;; esac
  arguments+=("${archive:-$word}")
done
# Grouped, because archives depend on each other in any order.
exec "$compiler" -Wl,--start-group "${arguments[@]}" -Wl,--end-group
