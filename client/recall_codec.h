// SPDX-License-Identifier: Apache-2.0
//
// Recalls to and from the wire; internal to client/. A reply is believed only when it fits the
// request and the worker's own map in every respect: sequence, epoch, layers, slots, generations,
// what each placement replaces, that every wanted page is resident afterwards, and every checksum.
// Pure functions.
#ifndef QUIRE_CLIENT_RECALL_CODEC_H_
#define QUIRE_CLIENT_RECALL_CODEC_H_

#include <span>

#include "client/resident_map.h"
#include "client/session.h"
#include "common/base/status.h"
#include "common/page/kv_spec.h"
#include "quire/v1/session.pb.h"

namespace quire {

/// INVALID_ARGUMENT naming the layer when `wants` cannot be asked of a session with this spec and
/// map.
[[nodiscard]] Status CheckWants(std::span<const LayerWant> wants, const KvSpec& spec,
                                const ResidentMap& map);
/// Adds `wants`, which passed CheckWants, to `request`.
void WantsToProto(std::span<const LayerWant> wants, v1::RecallRequest* request);

/// The result in `reply` to `request`, whose layers are `wants`. A non-OK status says what is wrong
/// with the reply. The payload is checked and moved into the result.
[[nodiscard]] StatusOr<RecallResult> RecallFromProto(const v1::RecallReply& reply, Payload payload,
                                                     const v1::RecallRequest& request,
                                                     std::span<const LayerWant> wants,
                                                     const KvSpec& spec, const ResidentMap& map);

/// Adds every slot of the map to `request`.
void MapToProto(const ResidentMap& map, v1::ResyncRequest* request);

}  // namespace quire

#endif  // QUIRE_CLIENT_RECALL_CODEC_H_
