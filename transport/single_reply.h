// SPDX-License-Identifier: Apache-2.0
//
// A reply of one part, taken whole: what Transport::Call makes of a pending call.
#ifndef QUIRE_TRANSPORT_SINGLE_REPLY_H_
#define QUIRE_TRANSPORT_SINGLE_REPLY_H_

#include "quire/status.h"
#include "transport/transport.h"

namespace quire {

/// Waits for the end of `call`. `*reply` is set only on OK. Errors: the call's; INTERNAL when its
/// reply is not one part.
[[nodiscard]] Status TakeSingleReply(PendingCall& call, CallMessage* reply);

}  // namespace quire

#endif  // QUIRE_TRANSPORT_SINGLE_REPLY_H_
