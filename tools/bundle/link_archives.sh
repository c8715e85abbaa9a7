#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# link_archives.sh COMPILER ARG...: links with archives in place of shared libraries, where a library
# has both. What has to stay shared, and is carried beside the programs, is named below.
set -euo pipefail

# UCX finds its modules from where its library lies. OpenSSL and zlib are used by cpp-httplib as well,
# which has no archive, and a process is to have them once.
readonly SHARED='ucp|uct|ucs|ucm|ssl|crypto|z'

archive_of() { # library name -> its archive; nothing when it stays shared
  [[ $1 =~ ^($SHARED)$ ]] && return
  local path
  path=$("$compiler" -print-file-name="lib$1.a")
  [[ $path == /* ]] && printf '%s' "$path"
}

# What archives need and shared libraries bring along by themselves.
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
# Archives that need each other, in any order.
exec "$compiler" -Wl,--start-group "${arguments[@]}" -Wl,--end-group
