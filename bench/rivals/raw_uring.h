// SPDX-License-Identifier: Apache-2.0
//
// RawUring: the minimal program that keeps an io_uring full. It is the limit of storage benchmarks,
// and stops at any failure.
// Thread-safety: none.
#ifndef QUIRE_BENCH_RIVALS_RAW_URING_H_
#define QUIRE_BENCH_RIVALS_RAW_URING_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "common/base/status.h"

struct io_uring;

namespace quire::bench {

/// One transfer between a file opened for direct I/O and memory of the loop.
struct RawTransfer {
  int fd = -1;
  uint64_t offset = 0;
};

class RawUring {
 public:
  enum class Kind { kRead, kWrite };

  /// Moves blocks of `block_bytes` to and from `memory`, cyclically. Use as much memory as the
  /// rival, since caches matter. REQUIRES: `memory` is aligned to 4096 and outlives the object.
  static StatusOr<std::unique_ptr<RawUring>> Create(uint32_t depth, uint64_t block_bytes,
                                                    std::span<std::byte> memory);
  ~RawUring();
  RawUring(const RawUring&) = delete;
  RawUring& operator=(const RawUring&) = delete;

  /// Moves a block for each transfer, always `depth` in flight. UNAVAILABLE if one fails.
  Status Run(Kind kind, std::span<const RawTransfer> transfers);

 private:
  RawUring(uint32_t depth, uint64_t block_bytes, std::span<std::byte> memory);

  const uint32_t depth_;
  const uint64_t block_bytes_;
  const std::span<std::byte> memory_;
  const std::unique_ptr<io_uring> ring_;
  bool set_up_ = false;
};

}  // namespace quire::bench

#endif  // QUIRE_BENCH_RIVALS_RAW_URING_H_
