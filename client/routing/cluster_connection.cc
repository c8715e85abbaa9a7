// SPDX-License-Identifier: Apache-2.0
#include "quire/cluster_connection.h"

#include <algorithm>
#include <utility>

#include "client/data/data_transport.h"
#include "client/routing/cluster_transport.h"
#include "client/routing/node_choice.h"
#include "client/routing/node_transport.h"
#include "client/routing/read_spread.h"

namespace quire {

using internal::ClusterTransport;
using internal::DataTransport;
using internal::NodeChoice;
using internal::NodeTransport;
using internal::ReadSpread;

class ClusterConnection::Impl {
 public:
  std::shared_ptr<NodeChoice> choice;
  std::shared_ptr<ClusterTransport> control;
};

namespace {

/// Connects to the node that the calls go to now.
StatusOr<DataConnection> ConnectToCurrent(const std::shared_ptr<NodeChoice>& choice,
                                          DataOptions options, TimePoint deadline) {
  const TimePoint now = SystemClock().Now();
  QUIRE_ASSIGN_OR_RETURN(NodeChoice::Node node, choice->Current(std::max(deadline, now) - now));
  options.control_address = node.address;
  auto made = internal::ConnectDataOnce(node.transport, options, deadline);
  choice->Note(node, made.status());
  QUIRE_RETURN_IF_ERROR(made.status());
  made->transport =
      std::make_shared<NodeTransport>(choice, std::move(node), std::move(made->transport));
  return made;
}

}  // namespace

StatusOr<std::unique_ptr<ClusterConnection>> ClusterConnection::Open(Options options) {
  if (options.router == nullptr) {
    return InvalidArgument("ClusterConnection::Options::router is null; make a DocumentRouter");
  }
  Clock* const clock = options.clock != nullptr ? options.clock : &SystemClock();
  auto impl = std::make_unique<Impl>();
  impl->choice = std::make_shared<NodeChoice>(options.router, options.documents, clock);
  QUIRE_ASSIGN_OR_RETURN(const NodeChoice::Node node, impl->choice->Current(Duration::max()));
  impl->control = std::make_shared<ClusterTransport>(
      ClusterTransport::Options{.choice = impl->choice,
                                .spread = std::make_shared<ReadSpread>(
                                    std::move(options.router), std::move(options.documents), clock),
                                .capabilities = node.transport->capabilities(),
                                .hedge_reads = options.hedge_reads,
                                .clock = clock});
  return std::unique_ptr<ClusterConnection>(new ClusterConnection(std::move(impl)));
}

ClusterConnection::ClusterConnection(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ClusterConnection::~ClusterConnection() = default;

std::shared_ptr<Transport> ClusterConnection::control() const { return impl_->control; }

StatusOr<DataConnection> ClusterConnection::ConnectData(
    const DataOptions& options, std::function<void(const DataReport&)> on_other_way) const {
  QUIRE_ASSIGN_OR_RETURN(
      auto transport,
      DataTransport::Open({.connect =
                               [choice = impl_->choice, options](TimePoint deadline) {
                                 return ConnectToCurrent(choice, options, deadline);
                               },
                           .on_other_way = std::move(on_other_way)}));
  DataReport report = transport->report();
  return DataConnection{.transport = std::move(transport), .report = std::move(report)};
}

ClusterConnection::Counters ClusterConnection::counters() const {
  const internal::HedgedReads& reads = impl_->control->reads();
  return {.node_changes = impl_->choice->changes(),
          .calls_failed = impl_->choice->failures(),
          .reads = reads.num_reads(),
          .hedged = reads.num_hedged(),
          .hedges_won = reads.num_won(),
          .spread = impl_->control->num_spread()};
}

}  // namespace quire
