// SPDX-License-Identifier: Apache-2.0
//
// Recalls to and from the wire; internal to client/. A part of a reply is believed only when it
// fits the request and the worker's own map in every respect: exchange, epoch, lanes, slots,
// generations, what each placement replaces, that every wanted page is resident afterwards, and
// every checksum. Pure functions.
#ifndef QUIRE_CLIENT_RECALL_CODEC_H_
#define QUIRE_CLIENT_RECALL_CODEC_H_

#include <cstdint>
#include <span>
#include <vector>

#include "client/recall.h"
#include "client/resident_map.h"
#include "common/base/status.h"
#include "common/page/kv_spec.h"
#include "quire/v1/session.pb.h"
#include "transport/transport.h"

namespace quire {

/// INVALID_ARGUMENT naming the lane when `wants` cannot be asked of a session with this spec and
/// map. What is under way does not matter.
[[nodiscard]] Status CheckWants(std::span<const LayerWant> wants, const KvSpec& spec,
                                const ResidentMap& map);

/// Every lane of `wants`, in the order asked; points into `wants`.
std::vector<WantedLane> LanesOf(std::span<const LayerWant> wants);

/// Adds `lanes`, which are of wants that passed CheckWants and in their order, to `request`, with
/// what `map` says that they have applied.
void LanesToProto(std::span<const WantedLane> lanes, const ResidentMap& map,
                  v1::RecallRequest* request);

/// What a part of a reply must fit.
struct ExpectedPart {
  uint64_t epoch = 0;
  uint64_t exchange = 0;
  std::span<const WantedLane> lanes;  ///< That have not come; the part brings the first of them.
  uint64_t unit_bytes = 0;            ///< Of what the session brings of a unit.
  const ResidentMap* map = nullptr;
  const SessionLanding* landing = nullptr;            ///< Null when no unit can have landed.
  std::vector<MismatchedUnit>* mismatched = nullptr;  ///< Takes the units that do not match.
  bool verify = true;                                 ///< Units that stay payload.
};
/// The part in `reply`, with `body`, the message that it was in. What landed becomes its payload. A
/// non-OK status says what is wrong with it.
[[nodiscard]] StatusOr<RecallPart> PartFromProto(const v1::RecallReply& reply, CallMessage body,
                                                 const ExpectedPart& expected);

/// Adds `units` to `request`.
void MismatchedToProto(std::span<const MismatchedUnit> units, v1::RecallRequest* request);

/// Adds every lane that has ever been recalled to `request`.
void MapToProto(const ResidentMap& map, v1::ResyncRequest* request);

}  // namespace quire

#endif  // QUIRE_CLIENT_RECALL_CODEC_H_
