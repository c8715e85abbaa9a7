// SPDX-License-Identifier: Apache-2.0
#include "apps/kit/document_route.h"

#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

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

bool NamesOneNode(const CommandContext& context) {
  return AddressesOf(context.options.server).size() <= 1;
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
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<ClusterConnection> connection,
                         ClusterConnection::Open({.router = std::move(router),
                                                  .documents = {names.begin(), names.end()}}));
  const DataConnector connect_data = [&connection](const DataOptions& data, auto on_other_way) {
    return connection->ConnectData(data, std::move(on_other_way));
  };
  return context.ConnectForSessionsOver(connection->control(), connect_data, transport);
}

StatusOr<GlobalOptions> RouteToPlace(const CommandContext& context,
                                     std::span<const DocumentName> names) {
  GlobalOptions routed = context.options;
  if (NamesOneNode(context)) return routed;
  QUIRE_ASSIGN_OR_RETURN(const auto router, MakeRouter(context));
  for (const DocumentName& name : names) {
    QUIRE_ASSIGN_OR_RETURN(const std::string node, router->FindPlace(name));
    if (&name != &names.front() && node != routed.server) {
      return InvalidArgument("the documents belong to several nodes (", routed.server, ", ", node,
                             "): name those of one node at a time; `quire cluster where` tells");
    }
    routed.server = node;
  }
  return routed;
}

StatusOr<GlobalOptions> RouteToHolder(const CommandContext& context,
                                      const Readings<DocumentName>& names) {
  return FirstFound(
      names, [&](const DocumentName& name) { return RouteToHolder(context, std::span(&name, 1)); });
}

}  // namespace quire::cli
