// SPDX-License-Identifier: Apache-2.0
//
// ClusterTransport: the control channel to the node that a NodeChoice names, call by call. A read,
// or a call that opens something, is made at the next node when its node has failed. Reads are
// hedged. Thread-safety: as Transport.
#ifndef QUIRE_CLIENT_ROUTING_CLUSTER_TRANSPORT_H_
#define QUIRE_CLIENT_ROUTING_CLUSTER_TRANSPORT_H_

#include <memory>
#include <utility>

#include "client/routing/hedged_reads.h"
#include "client/routing/node_choice.h"
#include "quire/clock.h"
#include "transport/transport.h"

namespace quire::internal {

class ClusterTransport final : public Transport {
 public:
  struct Options {
    std::shared_ptr<NodeChoice> choice;
    TransportCapabilities capabilities;  ///< Those of each node.
    bool hedge_reads = true;
    Clock* clock = &SystemClock();  ///< Outlives the transport.
  };
  explicit ClusterTransport(Options options)
      : options_(std::move(options)), reads_(options_.choice.get(), options_.clock) {}

  TransportCapabilities capabilities() const override { return options_.capabilities; }
  StatusOr<std::unique_ptr<PendingCall>> Start(std::string_view method, CallMessage request,
                                               const CallOptions& options) override;
  Status Call(std::string_view method, const CallMessage& request, CallMessage* reply,
              const CallOptions& options) override;

  const HedgedReads& reads() const { return reads_; }

 private:
  /// The node to call now. Sets the time that is left for the call.
  StatusOr<NodeChoice::Node> NodeUntil(TimePoint deadline, CallOptions* options);
  Status CallAt(const NodeChoice::Node& node, std::string_view method, const CallMessage& request,
                CallMessage* reply, const CallOptions& options);

  const Options options_;
  HedgedReads reads_;
};

}  // namespace quire::internal

#endif  // QUIRE_CLIENT_ROUTING_CLUSTER_TRANSPORT_H_
