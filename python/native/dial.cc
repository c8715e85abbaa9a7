// SPDX-License-Identifier: Apache-2.0
#include "python/native/dial.h"

#include <algorithm>
#include <string>
#include <utility>

#include "quire/cluster_client.h"
#include "quire/connect.h"

namespace quire::python {
namespace {

struct Node {
  std::string address;
  std::shared_ptr<Transport> control;
};

Duration PatienceOf(const DialOptions& options) {
  return std::min<Duration>(options.timeout, options.patience);
}

/// The connection for recalls; none, with the reason, where "auto" finds none.
StatusOr<DataConnection> DataOf(const Node& node, const DialOptions& options) {
  DataConnection none{.transport = nullptr, .report = {.taken = "control"}};
  if (options.transport == "control") return none;
  const bool direct = options.transport == "ucx-direct";
  auto connected = ConnectData(node.control, {.transport = direct ? "ucx" : options.transport,
                                              .ucx_within_host = direct,
                                              .tenant = options.tenant,
                                              .token = options.token,
                                              .control_address = node.address,
                                              .timeout = PatienceOf(options),
                                              .direct_landings = direct});
  if (connected.ok() || options.transport != "auto") return connected;
  none.report.detail = connected.status().message();
  return none;
}

StatusOr<std::unique_ptr<Client>> ClientOver(const Node& node, const DataConnection& data,
                                             const DialOptions& options, Duration unreachable_for) {
  return Client::Create({.transport = node.control,
                         .data_transport = data.transport,
                         .tenant = options.tenant,
                         .deadline = options.timeout,
                         .retry = {.unreachable_for = unreachable_for}});
}

StatusOr<Dialled> DialServer(const DialOptions& options) {
  Node node{.address = options.servers.front(), .control = nullptr};
  QUIRE_ASSIGN_OR_RETURN(node.control, ConnectGrpc(node.address, {.token = options.token}));
  QUIRE_ASSIGN_OR_RETURN(const DataConnection data, DataOf(node, options));
  QUIRE_ASSIGN_OR_RETURN(auto client, ClientOver(node, data, options, PatienceOf(options)));
  const std::string why = data.report.detail.empty() ? "" : " (" + data.report.detail + ")";
  return Dialled{.client = std::move(client),
                 .transport = data.report.taken,
                 .summary = data.transport == nullptr ? "control" + why : data.report.Summary()};
}

StatusOr<Dialled> DialCluster(const DialOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(std::shared_ptr<DocumentRouter> router,
                         DocumentRouter::Create({.servers = options.servers,
                                                 .tenant = options.tenant,
                                                 .connect_options = {.token = options.token}}));
  auto connect = [options](
                     const std::string& address,
                     std::shared_ptr<Transport> control) -> StatusOr<std::unique_ptr<Client>> {
    const Node node{address, std::move(control)};
    QUIRE_ASSIGN_OR_RETURN(const DataConnection data, DataOf(node, options));
    return ClientOver(node, data, options, ClusterClient::kNodeUnreachableFor);
  };
  QUIRE_ASSIGN_OR_RETURN(
      auto client, ClusterClient::Create({.router = router,
                                          .connect = std::move(connect),
                                          .deadline = options.timeout,
                                          .retry = {.unreachable_for = PatienceOf(options)}}));
  return Dialled{.client = std::move(client),
                 .transport = "",
                 .summary = "each node's own way",
                 .router = std::move(router)};
}

}  // namespace

StatusOr<Dialled> Dial(const DialOptions& options) {
  const bool lacks = std::ranges::find(options.servers, "") != options.servers.end();
  if (options.servers.empty() || lacks) {
    return InvalidArgument("address: name a server, or some nodes of a cluster, as host:port");
  }
  return options.is_cluster ? DialCluster(options) : DialServer(options);
}

}  // namespace quire::python
