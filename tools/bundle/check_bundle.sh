#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# check_bundle.sh ARCHIVE: proves that the bundle needs nothing of a machine but the C library. Its
# programs run, with an empty environment, in a root directory that holds the bundle, glibc and nothing
# else; where such a root cannot be made, what the loader takes is checked alone, and that is said.
# What compiles the CUDA part is complete: every header is there, and, where there is nvcc, every source
# that the build names.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tools/bundle/common.sh
source "$here/common.sh"

archive=$1
work=$(mktemp -d "${TMPDIR:-/tmp}/quire-bundle-XXXXXX")
trap 'rm -rf "$work"' EXIT
root=$work/root
bundle=$root/quire

check_size() {
  local bytes
  bytes=$(stat -c %s "$archive")
  ((bytes <= LIMIT_MIB << 20)) || die "$archive has $bytes bytes, more than $LIMIT_MIB MiB"
  echo "size: $bytes bytes of at most $((LIMIT_MIB << 20))"
}

unpack() {
  mkdir -p "$bundle"
  tar -C "$bundle" --strip-components=1 -xzf "$archive"
}

check_libraries() {
  local file soname path
  while read -r file; do
    while read -r soname path; do
      [[ $path == "$bundle"/* ]] || die "${file#"$bundle"/} takes $soname from $path, outside the bundle"
    done < <(LD_LIBRARY_PATH='' libraries_of "$file")
  done < <(find "$bundle/bin" -type f)
  # Libraries and modules by themselves: what they need has to lie in the bundle.
  while read -r file; do
    while read -r soname; do
      [[ $soname =~ $GLIBC || -f $bundle/lib/$soname ]] || die "${file#"$bundle"/} needs $soname, which the bundle lacks"
    done < <(objdump -p "$file" | awk '$1 == "NEEDED" { print $2 }')
  done < <(elf_files "$bundle")
  echo "libraries: all from the bundle, but for glibc"
}

check_floor() {
  local newest
  newest=$(elf_files "$bundle" | xargs objdump -T | grep -o 'GLIBC_2\.[0-9.]*' | sort -Vu | tail -1)
  newest=${newest#GLIBC_}
  [[ $(printf '%s\n' "$newest" "$GLIBC_FLOOR" | sort -V | tail -1) == "$GLIBC_FLOOR" ]] ||
    die "something needs glibc $newest; the bundle promises to run with $GLIBC_FLOOR"
  echo "glibc: $newest or newer"
}

check_baseline() {
  local file
  while read -r file; do
    if readelf -nW "$file" 2>/dev/null | grep -q 'ISA needed:.*x86-64-v[234]'; then
      die "${file#"$bundle"/} needs more than baseline x86-64"
    fi
  done < <(elf_files "$bundle")
  echo "instructions: baseline x86-64; faster code is chosen at run time"
}

# Of common/ the kernels compile nothing: its headers alone are needed.
check_headers() {
  local include count=0
  while read -r include; do
    [[ -f $bundle/src/$include ]] || die "src/ includes $include, which the bundle lacks"
    count=$((count + 1))
  done < <(find "$bundle/src/kernels" "$bundle/src/common" -type f ! -path '*/src/common/*.cc' \
    -exec grep -h '^#include "' {} + | cut -d'"' -f2 | sort -u)
  ((count)) || die "src/ includes nothing"
  echo "headers: all $count that src/ includes are there"
}

check_cuda_build() {
  local code=0
  "$bundle/build_cuda.sh" --dry-run >"$work/cuda" 2>&1 || code=$?
  case $code in
    0) echo "CUDA part: the sources of all $(grep -c '\.o$' "$work/cuda") objects are there" ;;
    3) echo "CUDA part: its sources were not checked: $(tail -1 "$work/cuda")" ;;
    *)
      cat "$work/cuda" >&2
      die "build_cuda.sh --dry-run failed"
      ;;
  esac
}

# A root directory of glibc alone; nothing of it is a program.
make_root() {
  local library
  mkdir -p "$root"/{lib64,lib/x86_64-linux-gnu,tmp,proc,sys,dev}
  for library in libc.so.6 libm.so.6 libdl.so.2 libpthread.so.0 librt.so.1 libresolv.so.2 libutil.so.1; do
    cp "$(gcc -print-file-name="$library")" "$root/lib/x86_64-linux-gnu/"
  done
  cp -L /lib64/ld-linux-x86-64.so.2 "$root/lib64/"
}

# The start of one document: the whole main job in a second.
make_documents() {
  mkdir "$root/docs"
  head -c 8000 "$bundle/models/recall-small/documents/dossier-01.txt" >"$root/docs/dossier.txt"
}

# Runs a script in namespaces of its own, so that what it mounts goes with it.
isolated() {
  if ((EUID == 0)); then unshare --mount --pid --fork "$@"; else unshare --user --map-root-user --mount --pid --fork "$@"; fi
}

# in_root COMMAND...: with an empty environment.
in_root() {
  # shellcheck disable=SC2016 # The inner shell expands it.
  isolated bash -c '
    set -e
    root=$1; shift
    mount -t proc proc "$root/proc"
    mount --rbind /sys "$root/sys"
    mount -t tmpfs tmpfs "$root/dev"
    for device in null urandom random; do : >"$root/dev/$device"; mount --bind "/dev/$device" "$root/dev/$device"; done
    mkdir "$root/dev/shm"
    chroot=$(command -v chroot)
    exec env -i "$chroot" "$root" "$@"' in_root "$root" "$@"
}

run_programs() {
  make_root
  if ! in_root /quire/bin/quired --version >"$work/version" 2>"$work/error"; then
    if grep -qE '^(unshare|mount|chroot):' "$work/error"; then
      echo "no rights for a root directory of its own ($(head -1 "$work/error")): the programs were not run in one"
      env -i "$bundle/bin/quired" --version
      return
    fi
    die "quired --version: $(cat "$work/error")"
  fi
  in_root /quire/bin/quired --help >/dev/null
  in_root /quire/bin/quire --help >/dev/null
  make_documents
  local transport last
  for transport in shm ucx grpc; do
    in_root /quire/bin/quire demo --json --docs /docs --questions-per-document 2 --transport "$transport" >"$work/demo" 2>"$work/error" ||
      die "quire demo --transport $transport: $(tail -3 "$work/error")"
    last=$(tail -1 "$work/demo")
    [[ $last == *"\"transport\":\"$transport\""* ]] || die "quire demo --transport $transport answered: $last"
  done
  in_root /quire/bin/engine_device_test --gtest_filter='*/EngineDeviceTest.*/freekv:*/EngineGpuTest.*/freekv' >"$work/tests" ||
    die "engine_device_test: $(grep -m1 -E 'Failure|FAILED' "$work/tests")"
  grep -q '^\[==========\] 2 tests .* ran' "$work/tests" || die "engine_device_test has not both of its tests"
  echo "programs: quired $(cat "$work/version"); engine_device_test; quire demo over shm, ucx and grpc: $last"
}

check_size
unpack
check_libraries
check_floor
check_baseline
check_headers
check_cuda_build
run_programs
