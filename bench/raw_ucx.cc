// SPDX-License-Identifier: Apache-2.0
#include "bench/raw_ucx.h"

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "bench/raw_ucx_link.h"

namespace quire::bench {
namespace {

using Moves = std::vector<RawUcxMove>;

/// A thread for each link. A unit is the link's whose part of UCX's memory it goes to or comes
/// from.
class Links final : public RawUcx {
 public:
  /// Links have `part_bytes` each.
  Links(RawUcxWay way, uint64_t unit_bytes, uint64_t part_bytes,
        std::vector<std::unique_ptr<RawUcxLink>> links)
      : into_(MovesIntoUcxMemory(way)),
        unit_bytes_(unit_bytes),
        part_bytes_(part_bytes),
        links_(std::move(links)) {}

  StatusOr<Duration> Move(std::span<const RawUcxMove> moves) override {
    std::vector<Moves> shares(links_.size());
    for (const RawUcxMove& move : moves) shares[LinkOf(move)].push_back(move);
    std::vector<Status> ended(links_.size());
    const TimePoint begin = SystemClock().Now();
    std::vector<std::thread> others;
    for (size_t i = 1; i < links_.size(); ++i) {
      others.emplace_back([&, i] { ended[i] = links_[i]->Move(shares[i]); });
    }
    ended[0] = links_[0]->Move(shares[0]);
    for (std::thread& other : others) other.join();
    const Duration took = SystemClock().Now() - begin;
    for (const Status& status : ended) QUIRE_RETURN_IF_ERROR(status);
    return took;
  }

  std::span<const std::byte> Moved(uint64_t to) const override {
    const RawUcxLink& link = *links_[into_ ? to / part_bytes_ : 0];
    return {link.Moved(to), unit_bytes_};
  }
  std::string Lanes() const override { return links_.front()->Lanes(); }

 private:
  size_t LinkOf(const RawUcxMove& move) const {
    return (into_ ? move.to : move.from) / part_bytes_;
  }

  const bool into_;
  const uint64_t unit_bytes_;
  const uint64_t part_bytes_;
  const std::vector<std::unique_ptr<RawUcxLink>> links_;
};

/// Of the part [begin, end) of the memory that is divided among the threads.
StatusOr<std::unique_ptr<RawUcxLink>> ConnectLink(const RawUcxLane& lane, const RawUcxUnits& units,
                                                  uint64_t begin, uint64_t end) {
  if (IsMessages(lane.way)) return ConnectRawMessages(lane.options, lane.way, units);
  if (IsFetched(lane.way)) return ConnectRawFetched(lane.options, lane.way, units);
  return ConnectRawMemory(lane.options, lane.way, units, begin, end);
}

}  // namespace

StatusOr<std::unique_ptr<RawUcx>> RawUcx::Connect(const RawUcxLane& lane,
                                                  std::span<const std::byte> source,
                                                  std::span<std::byte> destination,
                                                  uint64_t unit_bytes) {
  if (unit_bytes == 0 || source.size() < unit_bytes || destination.size() < unit_bytes) {
    return InvalidArgument("a region holds no unit of ", unit_bytes, " bytes");
  }
  if (lane.threads == 0 || (IsMessages(lane.way) && lane.threads > 1)) {
    return InvalidArgument("units are moved by ", lane.threads, " threads; messages are sent by 1");
  }
  const RawUcxUnits units{.source = source, .destination = destination, .unit_bytes = unit_bytes};
  const uint64_t places =
      (MovesIntoUcxMemory(lane.way) ? destination.size() : source.size()) / unit_bytes;
  const uint64_t part_bytes = (places + lane.threads - 1) / lane.threads * unit_bytes;
  std::vector<std::unique_ptr<RawUcxLink>> links;
  for (uint64_t begin = 0; begin < places * unit_bytes; begin += part_bytes) {
    const uint64_t end = std::min(begin + part_bytes, places * unit_bytes);
    QUIRE_ASSIGN_OR_RETURN(links.emplace_back(), ConnectLink(lane, units, begin, end));
  }
  return std::make_unique<Links>(lane.way, unit_bytes, part_bytes, std::move(links));
}

}  // namespace quire::bench
