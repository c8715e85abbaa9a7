// SPDX-License-Identifier: Apache-2.0
#include "client/routing/cluster_transport.h"

#include <chrono>
#include <optional>
#include <string>

#include "client/routing/node_transport.h"
#include "common/base/retry_hint.h"

namespace quire::internal {
namespace {

constexpr Duration kSearchAgainAfter = std::chrono::milliseconds(50);
/// Nodes that one call goes to after the first.
constexpr int kMostMoves = 2;

/// True for a call that does no harm at a second node after a first one has failed. A lease ends
/// the session or context that the failed node may have opened.
bool MayMove(std::string_view method) {
  return HedgedReads::MethodIndex(method) || method == "quire.v1.Session/Open" ||
         method == "quire.v1.Store/OpenContext";
}

}  // namespace

StatusOr<std::unique_ptr<PendingCall>> ClusterTransport::Start(std::string_view method,
                                                               CallMessage request,
                                                               const CallOptions& options) {
  const TimePoint deadline = options_.clock->Now() + options.timeout;
  CallOptions rest = options;
  QUIRE_ASSIGN_OR_RETURN(const NodeChoice::Node node, NodeUntil(deadline, &rest));
  return StartNoted(options_.choice, node, *node.transport, method, std::move(request), rest);
}

StatusOr<NodeChoice::Node> ClusterTransport::NodeUntil(TimePoint deadline, CallOptions* options) {
  auto node = options_.choice->Current(deadline - options_.clock->Now());
  // Nothing was sent, so every call may be repeated.
  if (IsUnavailable(node.status())) return WithRetryAfter(node.status(), kSearchAgainAfter);
  options->timeout = deadline - options_.clock->Now();
  if (options->timeout > Duration::zero()) return node;
  return DeadlineExceeded("the time of the call was up when its node was found");
}

Status ClusterTransport::ReadOrCall(const NodeChoice::Node& node, const NodeChoice::Node* second,
                                    std::string_view method, const CallMessage& request,
                                    CallMessage* reply, const CallOptions& options) {
  const std::optional<size_t> read =
      options_.hedge_reads ? HedgedReads::MethodIndex(method) : std::nullopt;
  return read ? reads_.Call(node, *read, request, reply, options, second)
              : node.transport->Call(method, request, reply, options);
}

Status ClusterTransport::CallAt(const NodeChoice::Node& node, std::string_view method,
                                const CallMessage& request, CallMessage* reply,
                                const CallOptions& options) {
  const Status status = ReadOrCall(node, nullptr, method, request, reply, options);
  options_.choice->Note(node, status);
  return status;
}

Status ClusterTransport::CallSpread(const NodeChoice::Node& node, std::string_view method,
                                    const CallMessage& request, CallMessage* reply,
                                    const CallOptions& options) {
  const bool may_spread = options_.spread != nullptr && ReadSpread::MaySpread(method);
  const auto owner = may_spread ? options_.spread->Begin() : std::nullopt;
  if (!owner) return CallAt(node, method, request, reply, options);
  const bool is_other = owner->address != node.address;
  const TimePoint deadline = options_.clock->Now() + options.timeout;
  const Status status = is_other ? ReadOrCall(*owner, &node, method, request, reply, options)
                                 : CallAt(node, method, request, reply, options);
  options_.spread->End(owner->address, status);
  if (is_other && status.ok()) spread_.Add();
  if (!is_other || status.ok() || IsCancelled(status)) return status;
  CallOptions rest = options;
  rest.timeout = deadline - options_.clock->Now();
  return rest.timeout > Duration::zero() ? CallAt(node, method, request, reply, rest) : status;
}

Status ClusterTransport::Call(std::string_view method, const CallMessage& request,
                              CallMessage* reply, const CallOptions& options) {
  const TimePoint deadline = options_.clock->Now() + options.timeout;
  CallOptions rest = options;
  QUIRE_ASSIGN_OR_RETURN(NodeChoice::Node node, NodeUntil(deadline, &rest));
  Status status = CallSpread(node, method, request, reply, rest);
  for (int moves = 0; moves < kMostMoves && IsUnavailable(status) && MayMove(method); ++moves) {
    auto next = NodeUntil(deadline, &rest);
    // The caller waits before it asks the same node again.
    if (!next.ok() || next->address == node.address) break;
    node = *std::move(next);
    status = CallSpread(node, method, request, reply, rest);
  }
  return status;
}

}  // namespace quire::internal
