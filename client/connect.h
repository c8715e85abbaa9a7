// SPDX-License-Identifier: Apache-2.0
//
// ConnectGrpc: the transport that most programs want.
#ifndef QUIRE_CLIENT_CONNECT_H_
#define QUIRE_CLIENT_CONNECT_H_

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/status.h"
#include "common/wire/limits.h"
#include "transport/auth/bearer_token.h"
#include "transport/transport.h"

namespace quire {

struct ConnectOptions {
  uint64_t max_message_bytes = wire::kDefaultMaxMessageBytes;  ///< Each direction.
  /// Proves the tenant that calls name, to a server that asks for it; nothing prints it. It
  /// travels in the clear: over a Unix socket, a private network, or a proxy that encrypts.
  BearerToken token = {};
};

/// A transport to the server at `address` ("host:port", "[::1]:port" or "unix:/path"). It connects
/// at the first call, and again after a loss: whether the server is there shows then.
StatusOr<std::shared_ptr<Transport>> ConnectGrpc(const std::string& address,
                                                 const ConnectOptions& options = {});

}  // namespace quire

#endif  // QUIRE_CLIENT_CONNECT_H_
