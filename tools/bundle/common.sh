# SPDX-License-Identifier: Apache-2.0
#
# What making and checking a bundle agree on. Sourced.
# shellcheck shell=bash disable=SC2034

readonly LIMIT_MIB=60
# What every machine has to have by itself: the C library, at least of this version.
readonly GLIBC='^(ld-linux-x86-64|libc|libm|libdl|libpthread|librt|libresolv|libutil)\.so\.'
readonly GLIBC_FLOOR=2.36

die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }

# elf_files DIR: its programs and libraries. UCX's modules for InfiniBand are left out: they use the
# libraries of the machine's own RDMA stack, and stay unloaded on a machine without one.
elf_files() {
  find "$1/bin" "$1/lib" -type f ! -name 'libuct_ib.so*' ! -name 'libuct_rdmacm.so*' | sort
}

# libraries_of FILE...: "NAME PATH" for each shared library that the loader takes, the C library left
# out; the path is "not" for one that it does not find.
libraries_of() {
  env -i /usr/bin/ldd "$@" | awk '$2 == "=>" { print $1, $3 }' | sort -u | grep -Ev "$GLIBC" || true
}
