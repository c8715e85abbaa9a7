# SPDX-License-Identifier: Apache-2.0
#
# Common parts of making and checking a bundle. Sourced.
# shellcheck shell=bash disable=SC2034

readonly LIMIT_MIB=40
# The C library: bundled for machines with an older one, in a separate folder.
readonly C_LIBRARY=(ld-linux-x86-64.so.2 libc.so.6 libm.so.6 libdl.so.2 libpthread.so.0 librt.so.1
  libresolv.so.2 libutil.so.1)
readonly C_LIBRARY_DIR=lib/glibc

die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }

# elf_files DIR: its programs and libraries. Excludes UCX's modules for InfiniBand: they use the machine's
# RDMA libraries, and are not loaded without them.
elf_files() {
  find "$1/bin" "$1/lib" -type f ! -name 'libuct_ib.so*' ! -name 'libuct_rdmacm.so*' | sort
}

is_of_c_library() { [[ " ${C_LIBRARY[*]} " == *" $1 "* ]]; }

# libraries_of FILE...: "NAME PATH" for each shared library that the loader uses, without the C library;
# the path is "not" for a missing one.
libraries_of() {
  local name path
  env -i /usr/bin/ldd "$@" | awk '$2 == "=>" { print $1, $3 }' | sort -u | while read -r name path; do
    is_of_c_library "$name" || printf '%s %s\n' "$name" "$path"
  done
}
