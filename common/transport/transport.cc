// SPDX-License-Identifier: Apache-2.0
#include "common/transport/transport.h"

#include <utility>

#include "common/transport/plain_landing.h"
#include "common/transport/single_reply.h"

namespace quire {

Status TakeSingleReply(PendingCall& call, CallMessage* reply) {
  QUIRE_ASSIGN_OR_RETURN(auto part, call.Next(TimePoint::max()));
  if (!part) return Internal("the server answered without a reply");
  QUIRE_ASSIGN_OR_RETURN(const auto second, call.Next(TimePoint::max()));
  if (second)
    return Internal("the reply has several parts: start the call and take them one by one");
  *reply = std::move(*part);
  return OkStatus();
}

Status Transport::Call(std::string_view method, const CallMessage& request, CallMessage* reply,
                       const CallOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(const auto call, Start(method, request, options));
  return TakeSingleReply(*call, reply);
}

StatusOr<std::unique_ptr<Landing>> Transport::AddLanding(std::span<std::byte> memory) {
  return std::make_unique<PlainLanding>(this, memory);
}

}  // namespace quire
