// SPDX-License-Identifier: Apache-2.0
//
// RawUcxLink: a connection of a RawUcx, which moves its share of the units; internal to raw_ucx.
// Thread-safety: none. Ownership: the memory outlives it.
#ifndef QUIRE_BENCH_RAW_UCX_LINK_H_
#define QUIRE_BENCH_RAW_UCX_LINK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "bench/raw_ucx.h"
#include "common/base/status.h"

namespace quire::bench {

/// Between which memories.
struct RawUcxUnits {
  std::span<const std::byte> source;
  std::span<std::byte> destination;
  uint64_t unit_bytes = 0;
};

class RawUcxLink {
 public:
  virtual ~RawUcxLink() = default;
  virtual Status Move(std::span<const RawUcxMove> moves) = 0;
  /// Where the unit is that was moved to `to`.
  virtual const std::byte* Moved(uint64_t to) const = 0;
  virtual std::string Lanes() const = 0;
};

constexpr bool IsMessages(RawUcxWay way) {
  return way == RawUcxWay::kMessages || way == RawUcxWay::kPackedMessages;
}

/// For which IsMessages.
StatusOr<std::unique_ptr<RawUcxLink>> ConnectRawMessages(const UcxOptions& options, RawUcxWay way,
                                                         const RawUcxUnits& units);

constexpr bool IsFetched(RawUcxWay way) {
  return way == RawUcxWay::kFetchedUnits || way == RawUcxWay::kFetchedMessages ||
         way == RawUcxWay::kAttachedCopies;
}

/// For which IsFetched.
StatusOr<std::unique_ptr<RawUcxLink>> ConnectRawFetched(const UcxOptions& options, RawUcxWay way,
                                                        const RawUcxUnits& units);

/// Whether a way moves units into memory of UCX, or out of it.
constexpr bool MovesIntoUcxMemory(RawUcxWay way) {
  return way == RawUcxWay::kPuts || way == RawUcxWay::kCopiesOut;
}

/// Any other way, for units whose place in UCX's memory is in [begin, end).
StatusOr<std::unique_ptr<RawUcxLink>> ConnectRawMemory(const UcxOptions& options, RawUcxWay way,
                                                       const RawUcxUnits& units, uint64_t begin,
                                                       uint64_t end);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_RAW_UCX_LINK_H_
