#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# build_cuda.sh [--dry-run] [ARCHITECTURES]: compiles the CUDA part from src/ where the GPU is, into
# cuda/: the kernels' tests and benchmark, and lib/libquire_cuda.so, which quire loads for --device cuda.
# It takes nvcc and cmake (and what those need: a C++ compiler, and make or ninja).
# ARCHITECTURES as cmake has them, for example '80;90', which is also taken where no GPU is seen. Not
# given: those of the GPUs here.
# --dry-run: lists what would be compiled, and fails when a source of it is missing; takes ninja, and
# leaves nothing behind.
# Exit code 3: there is no nvcc, no cmake, or no ninja for a dry run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

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

build=cuda
how=()
if [[ ${1:-} == --dry-run ]]; then
  build=$(mktemp -d)
  trap 'rm -rf "$build"' EXIT
  how=(-- -n)
  shift
  # A dry run of make misses the libraries that it has not made.
  command -v ninja >/dev/null || die_without_tool "there is no ninja, which --dry-run takes"
fi
[[ ${1:-} != -* ]] || die "unknown option '$1'; usage: build_cuda.sh [--dry-run] [ARCHITECTURES]"

command -v cmake >/dev/null || die_without_tool "there is no cmake"
nvcc=$(find_nvcc)
generator=()
if command -v ninja >/dev/null; then generator=(-G Ninja); fi
architectures=${1:-$(if nvidia-smi -L >/dev/null 2>&1; then echo native; else echo '80;90'; fi)}
googletest=()
if [[ -d src/googletest ]]; then googletest=(-DQUIRE_GOOGLETEST="$PWD/src/googletest"); fi

CUDACXX=$nvcc cmake -S src/kernels -B "$build" "${generator[@]}" "${googletest[@]}" -DCMAKE_BUILD_TYPE=Release \
  -DQUIRE_CUDA=ON -DCMAKE_CUDA_COMPILER="$nvcc" -DCMAKE_CUDA_ARCHITECTURES="$architectures"
targets=(quire_cuda quire_bench_cuda_kernels)
if ((${#googletest[@]})); then targets+=(kernels_cuda_conformance_test); fi
cmake --build "$build" --parallel "$(nproc)" --target "${targets[@]}" "${how[@]}"
if ((${#how[@]})); then
  echo "nothing was compiled: cuda/ and lib/libquire_cuda.so would be, with $nvcc for $architectures"
  exit
fi
install -D -m 755 cuda/lib/libquire_cuda.so lib/libquire_cuda.so
echo "built cuda/ and lib/libquire_cuda.so with $nvcc for $architectures"
