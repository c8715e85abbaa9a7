// SPDX-License-Identifier: Apache-2.0
//
// Conversions of sessions between wire messages and domain values. FromProto functions check shapes
// and limits, and allocate no more than accepted values may have. The session checks everything
// that needs its state. Errors are INVALID_ARGUMENT naming the field.
#ifndef QUIRE_KVSERVER_SERVICE_ADAPTERS_SESSION_CONVERT_H_
#define QUIRE_KVSERVER_SERVICE_ADAPTERS_SESSION_CONVERT_H_

#include <cstdint>
#include <span>
#include <vector>

#include "kvserver/session/content_scores.h"
#include "kvserver/session/recall.h"
#include "kvserver/session/session_manager.h"
#include "kvserver/session/session_shape.h"
#include "quire/status.h"
#include "quire/v1/session.pb.h"

namespace quire::kvserver {

[[nodiscard]] StatusOr<SessionManager::OpenArgs> OpenArgsFromProto(
    const v1::OpenSessionRequest& proto);
[[nodiscard]] StatusOr<SessionManager::SequenceArgs> SequenceArgsFromProto(
    const v1::SequenceSpec& proto);
/// Returns minima and maxima when it is unspecified.
[[nodiscard]] StatusOr<DigestKind> DigestKindFromProto(int proto);
void OpenedToProto(const SessionManager::OpenedSequence& opened, v1::OpenedSequence* proto);

/// A recall of a session whose sequences have `sequence_slots` slots per head
/// (Session::SlotsOfSequences). It may want as many pages as a sequence has slots, and name as many
/// as held.
[[nodiscard]] StatusOr<RecallArgs> RecallArgsFromProto(const v1::RecallRequest& proto,
                                                       const SessionShape& shape,
                                                       std::span<const uint32_t> sequence_slots);
/// Converts a part without its payload and places.
void RecallPartToProto(const RecallArgs& args, const ReplyPart& part, v1::RecallReply* proto);

/// Scores that a worker asks for, of a session with this spec.
[[nodiscard]] StatusOr<ContentQuery> ContentQueryFromProto(const v1::ScorePagesRequest& proto,
                                                           const KvSpec& spec);

/// Maps for Resync of such a session.
[[nodiscard]] StatusOr<std::vector<LaneMap>> LaneMapsFromProto(
    const v1::ResyncRequest& proto, const SessionShape& shape,
    std::span<const uint32_t> sequence_slots);

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SERVICE_ADAPTERS_SESSION_CONVERT_H_
