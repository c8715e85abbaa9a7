// SPDX-License-Identifier: Apache-2.0
//
// The check of a message against a transport's limit, with the same error text on every transport.
#ifndef QUIRE_TRANSPORT_FRAMES_MESSAGE_LIMIT_H_
#define QUIRE_TRANSPORT_FRAMES_MESSAGE_LIMIT_H_

#include <cstdint>
#include <string_view>

#include "common/base/status.h"
#include "transport/transport.h"

namespace quire {

/// Bytes that count against max_message_bytes.
inline uint64_t MessageBytes(const CallMessage& message) {
  return message.control.size() + message.payload.size_bytes();
}

/// RESOURCE_EXHAUSTED if `message` is larger than `limit`; `what` is "request" or "reply".
[[nodiscard]] inline Status CheckMessageBytes(const CallMessage& message, uint64_t limit,
                                              std::string_view what) {
  if (MessageBytes(message) <= limit) return OkStatus();
  return ResourceExhausted("the ", what, " has ", MessageBytes(message),
                           " bytes, more than max_message_bytes = ", limit,
                           ": ask for less at a time, or raise the limit at both ends");
}

}  // namespace quire

#endif  // QUIRE_TRANSPORT_FRAMES_MESSAGE_LIMIT_H_
