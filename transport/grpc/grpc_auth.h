// SPDX-License-Identifier: Apache-2.0
//
// Whose a gRPC call is: what a client sends to say and to prove it, and the check that a server
// makes before it does anything else with the call. The standard health service is not checked: it
// is for probes, and answers whether the server serves and nothing else.
#ifndef QUIRE_TRANSPORT_GRPC_GRPC_AUTH_H_
#define QUIRE_TRANSPORT_GRPC_GRPC_AUTH_H_

#include <grpcpp/client_context.h>
#include <grpcpp/server_context.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/counters.h"
#include "common/base/health.h"
#include "quire/bearer_token.h"
#include "quire/status.h"
#include "transport/auth/tenant_tokens.h"

namespace quire {

/// The call metadata that names the tenant.
inline constexpr char kTenantMetadata[] = "quire-tenant";
/// That which proves the name: "Bearer " and a token.
inline constexpr char kAuthorizationMetadata[] = "authorization";

/// Sends `token` with the call; nothing when it is empty.
void AddToken(const BearerToken& token, grpc::ClientContext* context);

/// The tenant that a call names; "default" when it names none.
std::string TenantOf(const grpc::ServerContext& context);

/// One server's. Thread-safe.
class CallerCheck {
 public:
  /// Without tokens every caller is believed. `health` is told of those that are not; it may be
  /// null, and outlives the check.
  CallerCheck(std::shared_ptr<const TenantTokens> tokens, Health* health)
      : tokens_(std::move(tokens)), health_(health) {}

  /// OK when the call proves that it is `tenant`'s; otherwise UNAUTHENTICATED, in words that are
  /// the same for every caller.
  [[nodiscard]] Status Check(const grpc::ServerContext& context, std::string_view tenant);
  /// Calls that were not OK.
  uint64_t refused() const { return refused_.Get(); }

 private:
  const std::shared_ptr<const TenantTokens> tokens_;
  Health* const health_;
  Counter refused_;
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_GRPC_GRPC_AUTH_H_
