// SPDX-License-Identifier: Apache-2.0
#include "transport/transport.h"

#include <new>
#include <utility>

#include "transport/single_reply.h"

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

StatusOr<std::unique_ptr<Landing>> Transport::AddLanding(std::span<std::byte>) {
  return Unimplemented("the server writes into no memory over ", capabilities().name,
                       ": start calls without a landing, and take units as payload");
}

StatusOr<OwnedMemory> Transport::AllocateLandingMemory(uint64_t bytes) {
  constexpr std::align_val_t kPage{4096};
  auto* const memory = static_cast<std::byte*>(::operator new(bytes, kPage, std::nothrow));
  if (memory == nullptr) return ResourceExhausted("no memory for a landing of ", bytes, " bytes");
  const auto release = [](const std::byte* done) {
    ::operator delete(const_cast<std::byte*>(done), kPage);
  };
  return OwnedMemory{{memory, bytes}, std::shared_ptr<const std::byte>(memory, release)};
}

}  // namespace quire
