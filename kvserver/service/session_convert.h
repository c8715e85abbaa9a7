// SPDX-License-Identifier: Apache-2.0
//
// Sessions: wire messages to what the domain takes, and back. FromProto functions check shapes and
// limits, and take no more memory than what they accept may have; the session checks what needs its
// state. Errors are INVALID_ARGUMENT naming the field.
#ifndef QUIRE_KVSERVER_SERVICE_SESSION_CONVERT_H_
#define QUIRE_KVSERVER_SERVICE_SESSION_CONVERT_H_

#include <cstdint>
#include <span>
#include <vector>

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
/// Minima and maxima when it is not specified.
[[nodiscard]] StatusOr<DigestKind> DigestKindFromProto(int proto);
void OpenedToProto(const SessionManager::OpenedSequence& opened, v1::OpenedSequence* proto);

/// A recall of a session whose sequences have so many slots per head (Session::SlotsOfSequences):
/// it may want as many pages as they have slots, and name as many as held.
[[nodiscard]] StatusOr<RecallArgs> RecallArgsFromProto(const v1::RecallRequest& proto,
                                                       const SessionShape& shape,
                                                       std::span<const uint32_t> sequence_slots);
/// Everything of a part but its payload and places.
void RecallPartToProto(const RecallArgs& args, const ReplyPart& part, v1::RecallReply* proto);

/// Maps of such a session.
[[nodiscard]] StatusOr<std::vector<LaneMap>> LaneMapsFromProto(
    const v1::ResyncRequest& proto, const SessionShape& shape,
    std::span<const uint32_t> sequence_slots);

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SERVICE_SESSION_CONVERT_H_
