#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# build_cuda.sh [--dry-run] [ARCHITECTURES]: compiles the CUDA part from src/ where the GPU is, into
# cuda/: the kernels' tests and benchmark, and lib/libquire_cuda.so, which quire loads for --device cuda.
# It needs nvcc 12.0 and cmake 3.25, or newer ones, with a C++ compiler, and make or ninja.
# ARCHITECTURES in cmake's form, for example '80;90', also without a GPU. Default: those of the GPUs here.
# --dry-run: lists the compile steps, and fails if a source is missing; needs ninja, leaves nothing
# behind.
# Exit code 3: nvcc, cmake, or (for a dry run) ninja is missing or too old.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

readonly CMAKE_NEEDED=3.25 NVCC_NEEDED=12.0 CAPABILITY_NEEDED=8.0

say() { printf 'build_cuda.sh: %s\n' "$*" >&2; }
die() { say "$@"; exit 1; }
die_without_tool() { say "$@"; exit 3; }

find_nvcc() {
  local candidate
  for candidate in "${CUDACXX:-}" "$(command -v nvcc || true)" "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc"; do
    [[ -x $candidate ]] && { printf '%s' "$candidate"; return; }
  done
  die_without_tool "there is no nvcc; install the CUDA toolkit, or say where it is with CUDACXX=/path/to/nvcc"
}

# at_least VERSION NEEDED
at_least() { [[ $(printf '%s\n' "$1" "$2" | sort -V | head -1) == "$2" ]]; }

check_cmake() {
  local version
  command -v cmake >/dev/null || die_without_tool "there is no cmake; it takes $CMAKE_NEEDED or newer"
  version=$(cmake --version | awk 'NR == 1 { print $3 }')
  at_least "$version" "$CMAKE_NEEDED" ||
    die_without_tool "cmake is $version; it takes $CMAKE_NEEDED or newer (one way is: pip install cmake)"
}

check_nvcc() {
  nvcc_version=$("$nvcc" --version | sed -n 's/.*release \([0-9.]*\).*/\1/p')
  at_least "${nvcc_version:-0}" "$NVCC_NEEDED" ||
    die_without_tool "$nvcc is ${nvcc_version:-of no known version}; C++20 takes $NVCC_NEEDED or newer"
}

# Checks the GPUs to compile for: asynchronous copies to shared memory (cp.async) need 8.0.
check_gpus() {
  local name capability
  while IFS=, read -r name capability; do
    at_least "${capability# }" "$CAPABILITY_NEEDED" ||
      die "$name has compute capability ${capability# }; the kernels take $CAPABILITY_NEEDED or newer." \
        "For other GPUs, name their architectures: build_cuda.sh 80"
  done < <(nvidia-smi --query-gpu=name,compute_cap --format=csv,noheader 2>/dev/null | grep ',')
}

# Checks the driver: nvcc's runtime is linked, and needs a driver of the same major version or a newer
# one.
check_driver() {
  local driver
  driver=$(nvidia-smi 2>/dev/null | sed -n 's/.*CUDA Version: \([0-9.]*\).*/\1/p') || true # There may be none.
  if [[ -n $driver ]] && ((${driver%%.*} < ${nvcc_version%%.*})); then
    say "the driver is for CUDA $driver, $nvcc for $nvcc_version: what is built will say 'no CUDA device: CUDA driver" \
      "version is insufficient'. Take a newer driver, or an older toolkit with CUDACXX=/path/to/nvcc"
  fi
}

build=cuda
how=()
if [[ ${1:-} == --dry-run ]]; then
  build=$(mktemp -d)
  trap 'rm -rf "$build"' EXIT
  how=(-- -n)
  shift
  # A dry run of make misses libraries that are not built.
  command -v ninja >/dev/null || die_without_tool "there is no ninja, which --dry-run takes"
fi
[[ ${1:-} != -* ]] || die "unknown option '$1'; usage: build_cuda.sh [--dry-run] [ARCHITECTURES]"

check_cmake
nvcc=$(find_nvcc)
check_nvcc
check_driver
if (($# == 0)); then check_gpus; fi
generator=()
if command -v ninja >/dev/null; then generator=(-G Ninja); fi
architectures=${1:-$(if nvidia-smi -L >/dev/null 2>&1; then echo native; else echo '80;90'; fi)}
googletest=()
if [[ -d src/googletest ]]; then googletest=(-DQUIRE_GOOGLETEST="$PWD/src/googletest"); fi

CUDACXX=$nvcc cmake -S src/kernels -B "$build" "${generator[@]}" "${googletest[@]}" -DCMAKE_BUILD_TYPE=Release \
  -DQUIRE_CUDA=ON -DQUIRE_WERROR=OFF -DCMAKE_CUDA_COMPILER="$nvcc" -DCMAKE_CUDA_ARCHITECTURES="$architectures"
targets=(quire_cuda quire_bench_cuda_kernels)
if ((${#googletest[@]})); then targets+=(kernels_cuda_conformance_test); fi
cmake --build "$build" --parallel "$(nproc)" --target "${targets[@]}" "${how[@]}"
if ((${#how[@]})); then
  echo "nothing was compiled: cuda/ and lib/libquire_cuda.so would be, with $nvcc for $architectures"
  exit
fi
install -D -m 755 cuda/lib/libquire_cuda.so lib/libquire_cuda.so
echo "built cuda/ and lib/libquire_cuda.so with $nvcc for $architectures"
