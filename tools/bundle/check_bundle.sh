#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# check_bundle.sh ARCHIVE: proves that the bundle needs nothing of a machine. Its programs run, with an
# empty environment, in a root directory that holds only the bundle. With an older C library there they
# use their own, otherwise the machine's. If such a root cannot be made, only the loader's choices are
# checked, and a message says so. The GPU script must plan its listed steps. The sources of the CUDA part
# must be complete: every header, and with nvcc every source that the build names.
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
  tar -C "$bundle" --strip-components=1 -xJf "$archive"
}

folder_of() { if is_of_c_library "$1"; then echo "$C_LIBRARY_DIR"; else echo lib; fi; }

check_libraries() {
  local file soname path
  while read -r file; do
    while read -r soname path; do
      [[ $path == "$bundle"/* ]] || die "${file#"$bundle"/} takes $soname from $path, outside the bundle"
    done < <(LD_LIBRARY_PATH='' libraries_of "$file")
  done < <(find "$bundle/bin" -type f)
  # Libraries and modules: their own needs must lie in the bundle.
  while read -r file; do
    while read -r soname; do
      [[ -f $bundle/$(folder_of "$soname")/$soname ]] || die "${file#"$bundle"/} needs $soname, which the bundle lacks"
    done < <(objdump -p "$file" | awk '$1 == "NEEDED" { print $2 }')
  done < <(elf_files "$bundle")
  echo "libraries: all from the bundle"
}

# The newest glibc version of the symbols that files define or need.
newest_glibc() { xargs objdump -T | grep -o 'GLIBC_2\.[0-9.]*' | sort -Vu | tail -1; }

check_c_library() {
  local carried newest
  carried=$(echo "$bundle/$C_LIBRARY_DIR/libc.so.6" | newest_glibc)
  newest=$(elf_files "$bundle" | newest_glibc)
  [[ $newest == "$carried" ]] || die "something needs $newest; the bundle carries $carried"
  echo "C library: $carried"
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

# The kernels compile no sources of common/; they need its headers alone.
check_headers() {
  local include count=0
  while read -r include; do
    [[ -f $bundle/src/$include || -f $bundle/src/include/$include ]] || die "src/ includes $include, which the bundle lacks"
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

# A GPU machine runs these steps one by one. Here only their plans can be checked.
check_gpu_steps() {
  local out=$work/gpu said step code=0
  while read -r step; do
    said=$("$bundle/run_gpu.sh" --dry-run "$out" "$step") || die "run_gpu.sh --dry-run $step failed"
    [[ $said == "$step "* ]] || die "run_gpu.sh --dry-run $step says: $said"
  done < <("$bundle/run_gpu.sh" --list)
  said=$("$bundle/run_gpu.sh" --dry-run "$out" | awk '{ print $1 }')
  [[ $said == "$("$bundle/run_gpu.sh" --list)" ]] || die "run_gpu.sh plans other steps than it lists: $said"
  "$bundle/run_gpu.sh" --dry-run "$out" no_such_step 2>/dev/null || code=$?
  [[ $code == 2 && ! -e $out ]] || die "run_gpu.sh took an unknown step, or a dry run wrote to $out"
  "$bundle/run_gpu.sh" "$out" same_answers >/dev/null || die "run_gpu.sh same_answers failed without demos"
  "$bundle/run_gpu.sh" "$out" conformance >/dev/null || true # Runs the available parts.
  [[ $(cat "$out/summary.json") == *'"conformance":'*'"same_answers":'* ]] || die "summary.json lacks the step of the call before"
  echo "GPU steps: $("$bundle/run_gpu.sh" --list | tr '\n' ' ')"
}

make_root() { mkdir -p "$root"/{tmp,proc,sys,dev}; }

# Copies this machine's C library into the root directory; `old` makes its version string old.
add_c_library() { # add_c_library [old]
  local name places=$root/lib/x86_64-linux-gnu said
  mkdir -p "$places" "$root/lib64"
  for name in "${C_LIBRARY[@]}"; do cp "$(gcc -print-file-name="$name")" "$places/"; done
  ln -sf ../lib/x86_64-linux-gnu/ld-linux-x86-64.so.2 "$root/lib64/"
  if [[ ${1:-} == old ]]; then
    said=$(grep -aoE ' release version [0-9.]+[0-9]' "$places/ld-linux-x86-64.so.2")
    sed -i "s/$said/${said//[0-9]/1}/" "$places/ld-linux-x86-64.so.2"
  fi
}

# Makes the beginning of one document: all of the main job in a second.
make_documents() {
  mkdir "$root/docs"
  head -c 8000 "$bundle/models/recall-small/documents/dossier-01.txt" >"$root/docs/dossier.txt"
}

# Runs a script in separate namespaces, which end with their mounts.
isolated() {
  if ((EUID == 0)); then unshare --mount --pid --fork "$@"; else unshare --user --map-root-user --mount --pid --fork "$@"; fi
}

# in_root COMMAND...: runs it with an empty environment.
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

# The paths of the C library's parts that quired uses in the root directory.
c_library_taken() {
  local name path
  in_root /env LD_TRACE_LOADED_OBJECTS=1 /quire/bin/quired >"$work/taken"
  awk '$2 == "=>" { print $1, $3 }' "$work/taken" | while read -r name path; do
    if is_of_c_library "$name"; then dirname "$path"; fi
  done | sort -u
}

check_choice() {
  local taken
  cp "$(command -v env)" "$root/env"
  add_c_library old
  taken=$(c_library_taken)
  [[ $taken == "/quire/bin/../$C_LIBRARY_DIR" ]] || die "beside an old C library, quired takes $taken"
  in_root /quire/bin/quired --version >/dev/null
  add_c_library
  taken=$(c_library_taken)
  [[ $taken == /lib/* ]] || die "beside a C library as new as the bundle's, quired takes $taken"
  in_root /quire/bin/quired --version >/dev/null
  echo "choice: the bundle's C library beside an old one, the machine's where it is as new"
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
  local transport last suite
  for transport in shm ucx grpc; do
    in_root /quire/bin/quire demo --json --docs /docs --questions-per-document 2 --transport "$transport" >"$work/demo" 2>"$work/error" ||
      die "quire demo --transport $transport: $(tail -3 "$work/error")"
    last=$(tail -1 "$work/demo")
    [[ $last == *"\"transport\":\"$transport\""* ]] || die "quire demo --transport $transport answered: $last"
  done
  in_root /quire/bin/engine_device_test --gtest_filter='*/EngineDeviceTest.*/freekv:*/EngineGpuTest.*/freekv' >"$work/tests" ||
    die "engine_device_test: $(grep -m1 -E 'Failure|FAILED' "$work/tests")"
  grep -q '^\[==========\] 2 tests .* ran' "$work/tests" || die "engine_device_test has not both of its tests"
  in_root /quire/bin/engine_device_test --gtest_filter='Fake/Device*:Cuda/Device*' >"$work/tests" ||
    die "engine_device_test: $(grep -m1 -E 'Failure|FAILED' "$work/tests")"
  for suite in DeviceConformance; do
    grep -q " Cuda/$suite\." "$work/tests" || die "engine_device_test has no $suite for a GPU"
  done
  echo "programs: quired $(cat "$work/version"); engine_device_test; quire demo over shm, ucx and grpc: $last"
  check_choice
}

check_size
unpack
check_libraries
check_c_library
check_baseline
check_headers
check_cuda_build
check_gpu_steps
run_programs
