// SPDX-License-Identifier: Apache-2.0
//
// Recalls to and from the wire; internal to client/. A part of a reply is accepted only when it
// fits the request and the worker's own map. Exchange, epoch, lanes, slots, generations and
// replaced pages must match. Every wanted page must be resident afterwards, and every checksum
// right. Pure functions.
#ifndef QUIRE_CLIENT_RECALL_RECALL_CODEC_H_
#define QUIRE_CLIENT_RECALL_RECALL_CODEC_H_

#include <cstdint>
#include <span>
#include <vector>

#include "client/recall/worker_slots.h"
#include "common/page/unit_sizes.h"
#include "quire/kv_spec.h"
#include "quire/recall.h"
#include "quire/status.h"
#include "quire/units.h"
#include "quire/v1/session.pb.h"
#include "transport/transport.h"

namespace quire::internal {

class LandingArea;

/// One lane of a want.
struct WantedLane {
  const LayerWant* want = nullptr;
  uint32_t layer = 0;
};

/// INVALID_ARGUMENT naming the lane when `wants` cannot be asked of a session with this spec and
/// map. Recalls in flight do not matter.
[[nodiscard]] Status CheckWants(std::span<const LayerWant> wants, const KvSpec& spec,
                                const WorkerSlots& map);

/// Every lane of `wants`, in the order asked; points into `wants`.
std::vector<WantedLane> LanesOf(std::span<const LayerWant> wants);

/// Adds `lanes`, which are of wants that passed CheckWants and in their order, to `request`, with
/// what `map` says that they have applied.
void LanesToProto(std::span<const WantedLane> lanes, const WorkerSlots& map,
                  v1::RecallRequest* request);

/// Constraints on a part of a reply.
struct ExpectedPart {
  uint64_t epoch = 0;
  uint64_t exchange = 0;
  std::span<const WantedLane> lanes;  ///< Lanes still to come; the part brings the first.
  UnitSizes sizes;                    ///< Bytes of the units that the session brings.
  const WorkerSlots* map = nullptr;
  const LandingArea* landing = nullptr;               ///< Null when no unit can have landed.
  std::vector<MismatchedUnit>* mismatched = nullptr;  ///< Takes the units that do not match.
  bool verify = true;                                 ///< Units that stay payload.
};
/// The part in `reply`, with `body`, the message that it was in. Landed units become its payload. A
/// non-OK status says what is wrong with it.
[[nodiscard]] StatusOr<RecallPart> PartFromProto(const v1::RecallReply& reply, CallMessage body,
                                                 const ExpectedPart& expected);

/// Adds `units` to `request`.
void MismatchedToProto(std::span<const MismatchedUnit> units, v1::RecallRequest* request);

/// Adds every lane that has ever been recalled to `request`.
void MapToProto(const WorkerSlots& map, v1::ResyncRequest* request);

}  // namespace quire::internal

#endif  // QUIRE_CLIENT_RECALL_RECALL_CODEC_H_
