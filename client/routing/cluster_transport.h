// SPDX-License-Identifier: Apache-2.0
//
// ClusterTransport: the control channel to the node that a NodeChoice names, call by call. A read,
// or a call that opens something, is made at the next node when its node has failed. Reads are
// hedged. Reads of hot documents go to all of their owners in turn, and to the chosen node when
// another owner fails. Thread-safety: as Transport.
#ifndef QUIRE_CLIENT_ROUTING_CLUSTER_TRANSPORT_H_
#define QUIRE_CLIENT_ROUTING_CLUSTER_TRANSPORT_H_

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "client/routing/hedged_reads.h"
#include "client/routing/node_choice.h"
#include "client/routing/read_spread.h"
#include "common/base/observe/counters.h"
#include "quire/clock.h"
#include "transport/transport.h"

namespace quire::internal {

class ClusterTransport final : public Transport {
 public:
  struct Options {
    std::shared_ptr<NodeChoice> choice;
    std::shared_ptr<ReadSpread> spread;  ///< Null: every read goes to the chosen node.
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
  /// Reads that another owner of a hot document answered.
  uint64_t num_spread() const { return spread_.Get(); }

 private:
  /// The node to call now. Sets the time that is left for the call.
  StatusOr<NodeChoice::Node> NodeUntil(TimePoint deadline, CallOptions* options);
  /// Calls a node. A slow read is asked of `second`, too; null: of a spare of the choice.
  Status ReadOrCall(const NodeChoice::Node& node, const NodeChoice::Node* second,
                    std::string_view method, const CallMessage& request, CallMessage* reply,
                    const CallOptions& options);
  /// Calls the chosen node, and reports the end to the choice.
  Status CallAt(const NodeChoice::Node& node, std::string_view method, const CallMessage& request,
                CallMessage* reply, const CallOptions& options);
  /// CallAt, or a read at another owner of hot documents. When that fails, CallAt after it.
  Status CallSpread(const NodeChoice::Node& node, std::string_view method,
                    const CallMessage& request, CallMessage* reply, const CallOptions& options);

  const Options options_;
  HedgedReads reads_;
  Counter spread_;
};

}  // namespace quire::internal

#endif  // QUIRE_CLIENT_ROUTING_CLUSTER_TRANSPORT_H_
