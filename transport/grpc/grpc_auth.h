// SPDX-License-Identifier: Apache-2.0
//
// Authentication of gRPC calls: what a client sends to prove its tenant, and the server's check.
// The server makes the check before any other work on the call. The standard health service is
// exempt: it is for probes and reveals only whether the server serves.
#ifndef QUIRE_TRANSPORT_GRPC_GRPC_AUTH_H_
#define QUIRE_TRANSPORT_GRPC_GRPC_AUTH_H_

#include <grpcpp/client_context.h>
#include <grpcpp/server_context.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/observe/counters.h"
#include "common/base/observe/health.h"
#include "quire/bearer_token.h"
#include "quire/status.h"
#include "transport/auth/tenant_tokens.h"

namespace quire {

/// The call metadata that names the tenant.
inline constexpr char kTenantMetadata[] = "quire-tenant";
/// The call metadata that proves the tenant: "Bearer " and a token.
inline constexpr char kAuthorizationMetadata[] = "authorization";

/// Sends `token` with the call; does nothing when it is empty.
void AddToken(const BearerToken& token, grpc::ClientContext* context);

/// The tenant that a call names; "default" when it names none.
std::string TenantOf(const grpc::ServerContext& context);

/// The check of one server. Thread-safe.
class CallerCheck {
 public:
  /// Without tokens every caller is believed. `health` receives the refusals; it may be null, and
  /// outlives the check.
  CallerCheck(std::shared_ptr<const TenantTokens> tokens, Health* health)
      : tokens_(std::move(tokens)), health_(health) {}

  /// OK when the call proves that it belongs to `tenant`; otherwise UNAUTHENTICATED, with the same
  /// text for every caller.
  [[nodiscard]] Status Check(const grpc::ServerContext& context, std::string_view tenant);
  /// True when the call proves that a node of the cluster makes it, and where callers are believed.
  bool IsNode(const grpc::ServerContext& context) const;
  /// Number of calls refused.
  uint64_t refused() const { return refused_.Get(); }

 private:
  const std::shared_ptr<const TenantTokens> tokens_;
  Health* const health_;
  Counter refused_;
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_GRPC_GRPC_AUTH_H_
