// SPDX-License-Identifier: Apache-2.0
//
// Waits for a reply of one part. Transport::Call uses it to complete a pending call.
#ifndef QUIRE_TRANSPORT_SINGLE_REPLY_H_
#define QUIRE_TRANSPORT_SINGLE_REPLY_H_

#include "common/base/status.h"
#include "transport/transport.h"

namespace quire {

/// Waits for the end of `call`. Sets `*reply` only on OK. Errors: those of the call; INTERNAL when
/// the reply is not one part.
[[nodiscard]] Status TakeSingleReply(PendingCall& call, CallMessage* reply);

}  // namespace quire

#endif  // QUIRE_TRANSPORT_SINGLE_REPLY_H_
