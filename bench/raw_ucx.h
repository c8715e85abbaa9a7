// SPDX-License-Identifier: Apache-2.0
//
// RawUcx: as little as it takes to move scattered units with UCX: two threads, each polling a
// worker of its own without sleeping. The limit that the UCX pipe is compared with; it handles no
// failure but by stopping. Thread-safety: none.
#ifndef QUIRE_BENCH_RAW_UCX_H_
#define QUIRE_BENCH_RAW_UCX_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/transport/ucx.h"

namespace quire::bench {

/// How units get to memory of the receiver.
enum class RawUcxWay {
  kMessages,  ///< Of 1 MiB, with their places; the receiver copies them there.
  /// UCX puts them there, 64 under way. The memory is UCX's; needs options.direct_landings.
  kPuts,
  kMapped,  ///< The sender copies them there, by the mapping that UCX has; as kPuts.
};

struct RawUcxLane {
  UcxOptions options;  ///< As the pipe's.
  RawUcxWay way = RawUcxWay::kMessages;
};

/// From where to where a unit goes, in bytes.
struct RawUcxMove {
  uint64_t from = 0;
  uint64_t to = 0;
};

/// The two ends, which stay connected as those of a session do.
class RawUcx {
 public:
  /// Units of `unit_bytes` will go from `source` to `destination`, or to memory of UCX of that
  /// size. UNIMPLEMENTED without UCX. Ownership: both outlive it.
  static StatusOr<std::unique_ptr<RawUcx>> Connect(const RawUcxLane& lane,
                                                   std::span<const std::byte> source,
                                                   std::span<std::byte> destination,
                                                   uint64_t unit_bytes);
  virtual ~RawUcx() = default;

  /// Moves units; how long that took, from the first to the last of them. REQUIRES: every move lies
  /// inside.
  virtual StatusOr<Duration> Move(std::span<const RawUcxMove> moves) = 0;
  /// Where they are now.
  virtual std::span<const std::byte> moved() const = 0;
};

}  // namespace quire::bench

#endif  // QUIRE_BENCH_RAW_UCX_H_
