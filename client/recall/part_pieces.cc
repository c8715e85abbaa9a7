// SPDX-License-Identifier: Apache-2.0
#include "client/recall/part_pieces.h"

#include <algorithm>
#include <utility>

#include "common/base/memory/payload_cutter.h"
#include "quire/session.h"

namespace quire {
namespace {

/// Payload bytes of placements [first, first + count) of `part`, which came through `session`.
uint64_t BytesOfPlacements(const ClientSession& session, const RecallPart& part, size_t first,
                           size_t count) {
  auto held = std::ranges::lower_bound(part.held, first);
  uint64_t bytes = 0;
  for (size_t i = first; i < first + count; ++i) {
    if (held != part.held.end() && *held == i) {
      ++held;  // Its unit is not in the payload.
    } else {
      bytes += session.unit_bytes(part.CodecOf(i));
    }
  }
  return bytes;
}

}  // namespace

RecallPart LanePart(const ClientSession& session, const RecallPart& part,
                    const RecalledLane& lane) {
  const size_t first = lane.first_placement;
  const size_t count = lane.end_placement - first;
  RecallPart own;
  own.lanes.push_back(lane);
  own.lanes.back().first_placement = 0;
  own.lanes.back().end_placement = count;
  const auto placements = part.PlacementsOf(lane);
  own.placements.assign(placements.begin(), placements.end());
  const auto checksums = std::span(part.checksums).subspan(first, count);
  own.checksums.assign(checksums.begin(), checksums.end());
  if (!part.codecs.empty()) {
    const auto codecs = std::span(part.codecs).subspan(first, count);
    own.codecs.assign(codecs.begin(), codecs.end());
  }
  const auto held_before = std::ranges::lower_bound(part.held, first);
  const auto held_end = std::ranges::lower_bound(part.held, first + count);
  for (auto at = held_before; at != held_end; ++at) own.held.push_back(*at - first);
  const uint64_t sent = BytesOfPlacements(session, part, first, count);
  if (sent == 0) return own;
  PayloadCutter cutter(part.payload);
  (void)cutter.Cut(BytesOfPlacements(session, part, 0, first));
  own.payload = cutter.Cut(sent);
  own.payload.AddLeases(part.payload);
  own.valid_until = part.valid_until;
  own.landed_bytes = part.landed_bytes > 0 ? sent : 0;  // All of a part lands, or nothing.
  return own;
}

namespace internal {

void AppendPart(RecallPart part, RecallResult* result) {
  const size_t shift = result->placements.size();
  for (RecalledLane& lane : part.lanes) {
    lane.first_placement += shift;
    lane.end_placement += shift;
    result->lanes.push_back(std::move(lane));
  }
  result->placements.insert(result->placements.end(), part.placements.begin(),
                            part.placements.end());
  for (const size_t held : part.held) result->held.push_back(held + shift);
  result->checksums.insert(result->checksums.end(), part.checksums.begin(), part.checksums.end());
  if (!part.codecs.empty() || !result->codecs.empty()) {
    result->codecs.resize(shift, UnitCodec::kRaw);
    result->codecs.insert(result->codecs.end(), part.codecs.begin(), part.codecs.end());
    result->codecs.resize(result->placements.size(), UnitCodec::kRaw);
  }
  result->payload.Append(part.payload);
  result->valid_until = std::min(result->valid_until, part.valid_until);
  result->landed_bytes += part.landed_bytes;
}

Status RenewLeases(RecallPart* part, Duration timeout, Clock& clock) {
  const TimePoint asked = clock.Now();
  for (const auto& lease : part->payload.leases()) {
    const Duration left = timeout - (clock.Now() - asked);
    QUIRE_RETURN_IF_ERROR(lease->Renew(std::max(left, Duration::zero())));
  }
  part->valid_until = part->payload.LentUntil(asked);
  return OkStatus();
}

}  // namespace internal
}  // namespace quire
