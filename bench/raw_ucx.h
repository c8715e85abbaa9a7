// SPDX-License-Identifier: Apache-2.0
//
// RawUcx: as little as it takes to move scattered units with UCX, in each of the ways that there
// are, by threads that poll workers of their own and do not sleep. The limit that the UCX pipe is
// compared with; it handles no failure but by stopping. Thread-safety: none.
#ifndef QUIRE_BENCH_RAW_UCX_H_
#define QUIRE_BENCH_RAW_UCX_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/transport/ucx.h"

namespace quire::bench {

/// How units get to memory of the receiver. Puts, gets and copies through a mapping need
/// options.direct_landings, and one end's memory is then UCX's.
enum class RawUcxWay {
  kMessages,  ///< Of 1 MiB, with their places; the receiver copies them there.
  /// The same, which this program copies into UCX's send buffers, fetching the next unit meanwhile.
  kPackedMessages,
  kPuts,          ///< UCX writes them into the receiver's memory, 64 under way.
  kGets,          ///< UCX reads them out of the sender's memory, 64 under way.
  kCopiesOut,     ///< The sender copies them into the receiver's memory, as UCX has it mapped.
  kCopiesIn,      ///< The receiver copies them out of the sender's memory, as UCX has it mapped.
  kFetchedUnits,  ///< A message of each, which the receiver's UCX fetches to its place, 64 under
                  ///< way.
  /// Messages of 1 MiB, gathered, which the receiver's UCX fetches, and the receiver copies to
  /// their places.
  kFetchedMessages,
  kAttachedCopies,  ///< Without UCX: the kernel copies 1 MiB of units at a time to their places.
};

struct RawUcxLane {
  UcxOptions options;  ///< As the pipe's.
  RawUcxWay way = RawUcxWay::kMessages;
  /// That move units, each over a connection of its own, an equal part of UCX's memory each.
  /// Messages that are not fetched have one, and a thread that receives.
  uint32_t threads = 1;
};

/// From where to where a unit goes, in bytes.
struct RawUcxMove {
  uint64_t from = 0;
  uint64_t to = 0;
};

/// The two ends, which stay connected as those of a session do.
class RawUcx {
 public:
  /// Units of `unit_bytes` will go from `source` to `destination`; where the way needs memory of
  /// UCX it is in place of one of them, of the same size, with what `source` holds now.
  /// UNIMPLEMENTED without UCX. Ownership: both outlive it.
  static StatusOr<std::unique_ptr<RawUcx>> Connect(const RawUcxLane& lane,
                                                   std::span<const std::byte> source,
                                                   std::span<std::byte> destination,
                                                   uint64_t unit_bytes);
  virtual ~RawUcx() = default;

  /// Moves units; how long that took, from the first to the last of them. REQUIRES: every move is
  /// of a whole unit inside, from and to a multiple of a unit.
  virtual StatusOr<Duration> Move(std::span<const RawUcxMove> moves) = 0;
  /// The unit that was moved to `to`.
  virtual std::span<const std::byte> Moved(uint64_t to) const = 0;
  /// What UCX says of the lanes at both ends.
  virtual std::string Lanes() const = 0;
};

}  // namespace quire::bench

#endif  // QUIRE_BENCH_RAW_UCX_H_
