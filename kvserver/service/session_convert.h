// SPDX-License-Identifier: Apache-2.0
//
// Recalls and resident maps: wire messages to what sessions take, and back. FromProto functions
// check shapes and limits that need no session; the session checks the rest. Errors are
// INVALID_ARGUMENT naming the field.
#ifndef QUIRE_KVSERVER_SERVICE_SESSION_CONVERT_H_
#define QUIRE_KVSERVER_SERVICE_SESSION_CONVERT_H_

#include <vector>

#include "common/base/status.h"
#include "kvserver/session/session.h"
#include "kvserver/session/session_manager.h"
#include "quire/v1/session.pb.h"

namespace quire::kvserver {

[[nodiscard]] StatusOr<SessionManager::OpenArgs> OpenArgsFromProto(
    const v1::OpenSessionRequest& proto);
[[nodiscard]] StatusOr<RecallArgs> RecallArgsFromProto(const v1::RecallRequest& proto);
[[nodiscard]] StatusOr<std::vector<LayerSlots>> LayerSlotsFromProto(const v1::ResyncRequest& proto);

/// Everything but the units.
void RecallAnswerToProto(const RecallArgs& args, const RecallAnswer& answer,
                         v1::RecallReply* proto);

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SERVICE_SESSION_CONVERT_H_
