// SPDX-License-Identifier: Apache-2.0
#include "apps/kit/document_route.h"

#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "quire/cluster_client.h"
#include "quire/cluster_connection.h"
#include "quire/document_router.h"

namespace quire::cli {
namespace {

std::vector<std::string> AddressesOf(const std::string& servers) {
  std::vector<std::string> addresses;
  std::istringstream words(servers);
  for (std::string word; std::getline(words, word, ',');) addresses.push_back(word);
  return addresses;
}

StatusOr<std::unique_ptr<DocumentRouter>> MakeRouter(const CommandContext& context) {
  QUIRE_ASSIGN_OR_RETURN(const BearerToken token, context.Token());
  return DocumentRouter::Create(
      {.servers = AddressesOf(context.options.server),
       .tenant = context.options.tenant_name(),
       .connect_options = {.max_message_bytes = context.options.max_message_bytes,
                           .token = token}});
}

/// DataPath::name of a client whose nodes are connected to one by one.
constexpr char kEachNode[] = "each";

bool NamesOneNode(const CommandContext& context) {
  return AddressesOf(context.options.server).size() <= 1;
}

StatusOr<std::unique_ptr<Client>> MakeClusterClient(const CommandContext& context,
                                                    ClusterClient::Connect connect,
                                                    TimeoutOf timeout, Health* health) {
  QUIRE_ASSIGN_OR_RETURN(std::shared_ptr<DocumentRouter> router, MakeRouter(context));
  const GlobalOptions& options = context.options;
  return ClusterClient::Create({.router = std::move(router),
                                .connect = std::move(connect),
                                .deadline = options.call_timeout(),
                                .limit = context.LimitOf(timeout),
                                .retry = {.unreachable_for = options.unreachable_for()},
                                .health = health});
}

}  // namespace

StatusOr<GlobalOptions> RouteToHolder(const CommandContext& context,
                                      std::span<const DocumentName> names) {
  GlobalOptions routed = context.options;
  if (NamesOneNode(context)) return routed;
  QUIRE_ASSIGN_OR_RETURN(const auto router, MakeRouter(context));
  QUIRE_ASSIGN_OR_RETURN(routed.server, router->FindHolder(names));
  return routed;
}

StatusOr<SessionClient> ConnectToHolder(const CommandContext& context,
                                        std::span<const DocumentName> names,
                                        const std::string& transport) {
  if (NamesOneNode(context)) return context.ConnectForSessions(transport);
  QUIRE_ASSIGN_OR_RETURN(std::shared_ptr<DocumentRouter> router, MakeRouter(context));
  QUIRE_ASSIGN_OR_RETURN(const std::shared_ptr<ClusterConnection> connection,
                         ClusterConnection::Open({.router = std::move(router),
                                                  .documents = {names.begin(), names.end()}}));
  const DataConnector connect_data = [&connection](const DataOptions& data, auto on_other_way) {
    return connection->ConnectData(data, std::move(on_other_way));
  };
  QUIRE_ASSIGN_OR_RETURN(
      SessionClient connected,
      context.ConnectForSessionsOver(connection->control(), connect_data, transport));
  connected.counts = [connection] { return ClusterCounts::Of(connection->counters()); };
  return connected;
}

StatusOr<SessionClient> ConnectToStore(const CommandContext& context, const std::string& transport,
                                       TimeoutOf timeout, Health* health) {
  if (NamesOneNode(context)) return context.ConnectForSessions(transport, timeout, health);
  const auto connect = [&context, transport, timeout](const std::string& address,
                                                      std::shared_ptr<Transport> control) {
    return context.ConnectToNode({address, std::move(control)}, transport, timeout);
  };
  QUIRE_ASSIGN_OR_RETURN(auto client, MakeClusterClient(context, connect, timeout, health));
  const auto* const of_cluster = static_cast<const ClusterClient*>(client.get());
  return SessionClient{
      .client = std::move(client),
      .path = {.transport = nullptr, .name = kEachNode, .summary = "each node's own way"},
      .counts = [of_cluster] { return ClusterCounts::Of(of_cluster->counters()); }};
}

StatusOr<std::unique_ptr<Client>> ConnectForPuts(const CommandContext& context) {
  if (NamesOneNode(context)) return context.Connect();
  const auto connect = [&context](const std::string& address, const auto&) {
    GlobalOptions node = context.options;
    node.server = address;
    return context.With(node).Connect();
  };
  return MakeClusterClient(context, connect, TimeoutOf::kCommand, nullptr);
}

std::string TransportName(const SessionClient& connected) {
  if (connected.path.name != kEachNode) return connected.path.name;
  return std::string(connected.client->data_transport_name());
}

StatusOr<GlobalOptions> RouteToHolder(const CommandContext& context,
                                      const Readings<DocumentName>& names) {
  return FirstFound(
      names, [&](const DocumentName& name) { return RouteToHolder(context, std::span(&name, 1)); });
}

}  // namespace quire::cli
