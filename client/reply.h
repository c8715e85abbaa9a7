// SPDX-License-Identifier: Apache-2.0
//
// Replies: taking them apart, and refusing what they must not say. Pure functions.
#ifndef QUIRE_CLIENT_REPLY_H_
#define QUIRE_CLIENT_REPLY_H_

#include <string_view>

#include "common/wire/message.h"
#include "quire/status.h"

namespace quire::internal {

/// DATA_LOSS for a reply that breaks the protocol, naming the method; nothing of it is used.
template <typename... Parts>
[[nodiscard]] Status BadReply(std::string_view method, const Parts&... parts) {
  return DataLoss("the server's reply to ", method, " is not valid: ", parts...,
                  "; nothing of it was used. Check that client and server are of the same version");
}

/// Takes a reply to `method` apart. INTERNAL, which no attempt repeats, when it cannot be parsed.
[[nodiscard]] inline Status DecodeReply(std::string_view method, std::string_view bytes,
                                        google::protobuf::Message* reply) {
  return Annotate(wire::Decode(bytes, reply), "the server's reply to ", method);
}

}  // namespace quire::internal

#endif  // QUIRE_CLIENT_REPLY_H_
