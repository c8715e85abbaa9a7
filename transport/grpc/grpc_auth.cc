// SPDX-License-Identifier: Apache-2.0
#include "transport/grpc/grpc_auth.h"

namespace quire {
namespace {

constexpr char kDefaultTenant[] = "default";

std::string_view View(grpc::string_ref text) { return {text.data(), text.size()}; }

/// The metadata that proves the caller; empty without.
std::string_view AuthorizationOf(const grpc::ServerContext& context) {
  const auto& metadata = context.client_metadata();
  const auto it = metadata.find(kAuthorizationMetadata);
  return it == metadata.end() ? std::string_view() : View(it->second);
}

}  // namespace

void AddToken(const BearerToken& token, grpc::ClientContext* context) {
  if (!token.empty()) context->AddMetadata(kAuthorizationMetadata, "Bearer " + token.secret());
}

std::string TenantOf(const grpc::ServerContext& context) {
  const auto& metadata = context.client_metadata();
  const auto it = metadata.find(kTenantMetadata);
  return it == metadata.end() ? kDefaultTenant : std::string(View(it->second));
}

Status CallerCheck::Check(const grpc::ServerContext& context, std::string_view tenant) {
  if (tokens_ == nullptr) return OkStatus();
  Status status = tokens_->Check(tenant, AuthorizationOf(context));
  if (status.ok()) return status;
  refused_.Add();
  NoteTo(health_, Trouble::kCallerUnproven,
         "a call from " + context.peer() +
             " has no token of the tenant that it names; give its program the token "
             "(deploy/README.md), or look who that is");
  return status;
}

bool CallerCheck::IsNode(const grpc::ServerContext& context) const {
  return tokens_ == nullptr || tokens_->ProvesNode(AuthorizationOf(context));
}

}  // namespace quire
