// SPDX-License-Identifier: Apache-2.0
//
// NodeTransport: the data connection to one node, while the calls about the documents go there.
// It reports how its calls end to the choice of the node. Once the choice is another node, its
// calls are UNAVAILABLE, so that DataTransport connects anew. Thread-safety: as Transport.
#ifndef QUIRE_CLIENT_ROUTING_NODE_TRANSPORT_H_
#define QUIRE_CLIENT_ROUTING_NODE_TRANSPORT_H_

#include <memory>
#include <utility>

#include "client/routing/node_choice.h"
#include "transport/transport.h"

namespace quire::internal {

/// Starts a call over `transport`, which leads to `node`, and reports its end to `choice`.
StatusOr<std::unique_ptr<PendingCall>> StartNoted(const std::shared_ptr<NodeChoice>& choice,
                                                  const NodeChoice::Node& node,
                                                  Transport& transport, std::string_view method,
                                                  CallMessage request, const CallOptions& options);

class NodeTransport final : public Transport {
 public:
  NodeTransport(std::shared_ptr<NodeChoice> choice, NodeChoice::Node node,
                std::shared_ptr<Transport> connection)
      : choice_(std::move(choice)), node_(std::move(node)), connection_(std::move(connection)) {}

  TransportCapabilities capabilities() const override { return connection_->capabilities(); }
  StatusOr<std::unique_ptr<PendingCall>> Start(std::string_view method, CallMessage request,
                                               const CallOptions& options) override;
  Status Call(std::string_view method, const CallMessage& request, CallMessage* reply,
              const CallOptions& options) override;
  StatusOr<std::unique_ptr<Landing>> AddLanding(std::span<std::byte> memory) override {
    return connection_->AddLanding(memory);
  }
  StatusOr<OwnedMemory> AllocateLandingMemory(uint64_t bytes) override {
    return connection_->AllocateLandingMemory(bytes);
  }

 private:
  Status CheckChosen() const;

  const std::shared_ptr<NodeChoice> choice_;
  const NodeChoice::Node node_;
  const std::shared_ptr<Transport> connection_;
};

}  // namespace quire::internal

#endif  // QUIRE_CLIENT_ROUTING_NODE_TRANSPORT_H_
