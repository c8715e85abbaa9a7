#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# make_bundle.sh SOURCE_DIR BUNDLE_DIR ARCHIVE [CUDA_LIBRARY]: packs the programs in BUNDLE_DIR/bin with
# their libraries, the bundled model, and the sources to compile the CUDA part elsewhere.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tools/bundle/common.sh
source "$here/common.sh"

source_dir=$1
bundle_dir=$2
archive=$3
cuda_library=${4:-}
name=$(basename "$archive" .tar.xz)
stage=$bundle_dir/$name
readonly GOOGLETEST=/usr/src/googletest
readonly COPYRIGHTS=/usr/share/doc
readonly COMMON_LICENCES=/usr/share/common-licenses

# Rejects flags for the compiling machine only: faster code is chosen at run time.
check_flags() {
  local commands=$bundle_dir/../compile_commands.json
  local flag
  flag=$(grep -oE -m1 ' -m(arch|cpu|avx|sse[34]|ssse|fma|bmi)[^ ]*' "$commands" | head -1) || true
  [[ -z $flag ]] || die "something is compiled with$flag; the bundle is for every x86-64"
}

copy_libraries() {
  mkdir -p "$stage/lib"
  local soname path
  while read -r soname path; do
    [[ -f $path ]] || die "there is no $soname to carry"
    install -m 644 "$path" "$stage/lib/$soname"
  done < <(libraries_of "$stage"/bin/*)
}

copy_c_library() {
  local name
  for name in "${C_LIBRARY[@]}"; do
    install -D -m 755 "$(gcc -print-file-name="$name")" "$stage/$C_LIBRARY_DIR/$name"
  done
}

# UCX loads modules from the folder ucx next to its library, by the file name it was loaded under.
copy_ucx_modules() {
  [[ -f $stage/lib/libucs.so.0 ]] || return 0
  local module
  for module in "$(dirname "$(gcc -print-file-name=libucs.so)")"/ucx/libuct_*.so.0; do
    install -D -m 644 "$module" "$stage/lib/ucx/$(basename "$module")"
  done
}

copy_model() {
  mkdir -p "$stage/models"
  cp -r "$source_dir/models/recall-small" "$stage/models/"
}

# Copies the sources that cmake needs to build kernels/ alone, including tests.
copy_kernel_sources() {
  mkdir -p "$stage/src/common"
  cp -r "$source_dir/kernels" "$source_dir/cmake" "$source_dir/include" "$stage/src/"
  cp -r "$source_dir/common/page" "$stage/src/common/"
  if [[ -d $GOOGLETEST ]]; then
    cp -r "$GOOGLETEST" "$stage/src/"
    rm -rf "$stage"/src/googletest/google{test,mock}/{test,samples,docs}
  fi
}

# Copies the licence of each included library, as Debian's packages state it.
copy_licences() {
  install -m 644 "$source_dir/LICENSE" "$stage/"
  mkdir -p "$stage/licences"
  local package
  for package in libgrpc++1.51 libprotobuf32 libabsl20220623 librocksdb7.8 libopenblas0-pthread libucx0 \
    libhwy1 libisal2 liburing2 libzstd1 libsnappy1v5 liblz4-1 libbz2-1.0 zlib1g libssl3 libc-ares2 \
    libre2-9 libcpp-httplib0.11 libbrotli1 libnuma1 libhiredis0.14 libcli11-dev nlohmann-json3-dev \
    libpcre2-8-0 libutf8proc2 libgumbo1 libcmark-gfm0.29.0.gfm.6 libcmark-gfm-extensions0.29.0.gfm.6 \
    libstdc++6 libc6 googletest; do
    [[ -f $COPYRIGHTS/$package/copyright ]] || continue
    install -m 644 "$COPYRIGHTS/$package/copyright" "$stage/licences/$package"
  done
  # For the C library and libnuma, whose packages only name it.
  install -m 644 "$COMMON_LICENCES/LGPL-2.1" "$stage/licences/"
}

# The programs share most of their code: a window over all of them finds it.
pack() {
  tar -C "$bundle_dir" --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -cf - "$name" |
    xz --threads=1 --lzma2=preset=2,dict=256MiB >"$archive.part"
  local bytes
  bytes=$(stat -c %s "$archive.part")
  ((bytes <= LIMIT_MIB << 20)) || die "$archive has $bytes bytes, more than $LIMIT_MIB MiB"
  mv "$archive.part" "$archive"
  printf '%s: %d.%d MiB\n' "$archive" $((bytes >> 20)) $(((bytes * 10 >> 20) % 10))
}

check_flags
rm -rf "$stage"
mkdir -p "$stage"
cp -r "$bundle_dir/bin" "$stage/bin"
copy_libraries
copy_c_library
copy_ucx_modules
if [[ -n $cuda_library ]]; then install -m 755 "$cuda_library" "$stage/lib/"; fi
copy_model
copy_kernel_sources
copy_licences
install -m 755 "$here/build_cuda.sh" "$here/run_gpu.sh" "$stage/"
install -m 644 "$here/README.md" "$stage/"
pack
rm -rf "$stage"
