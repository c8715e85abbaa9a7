// SPDX-License-Identifier: Apache-2.0
#include "apps/kit/document_route.h"

#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "quire/document_router.h"

namespace quire::cli {
namespace {

using FindNode = StatusOr<std::string> (DocumentRouter::*)(const DocumentName&);

std::vector<std::string> AddressesOf(const std::string& servers) {
  std::vector<std::string> addresses;
  std::istringstream words(servers);
  for (std::string word; std::getline(words, word, ',');) addresses.push_back(word);
  return addresses;
}

StatusOr<std::unique_ptr<DocumentRouter>> MakeRouter(const CommandContext& context,
                                                     std::vector<std::string> addresses) {
  QUIRE_ASSIGN_OR_RETURN(const BearerToken token, context.Token());
  return DocumentRouter::Create(
      {.servers = std::move(addresses),
       .tenant = context.options.tenant_name(),
       .connect_options = {.max_message_bytes = context.options.max_message_bytes,
                           .token = token}});
}

StatusOr<GlobalOptions> Route(const CommandContext& context, std::span<const DocumentName> names,
                              FindNode find) {
  GlobalOptions routed = context.options;
  std::vector<std::string> addresses = AddressesOf(routed.server);
  if (addresses.size() <= 1) return routed;
  QUIRE_ASSIGN_OR_RETURN(const auto router, MakeRouter(context, std::move(addresses)));
  for (const DocumentName& name : names) {
    QUIRE_ASSIGN_OR_RETURN(const std::string node, ((*router).*find)(name));
    if (&name != &names.front() && node != routed.server) {
      return InvalidArgument("the documents lie on several nodes (", routed.server, ", ", node,
                             "): name those of one node at a time; `quire cluster where` tells");
    }
    routed.server = node;
  }
  return routed;
}

}  // namespace

StatusOr<GlobalOptions> RouteToHolder(const CommandContext& context,
                                      std::span<const DocumentName> names) {
  return Route(context, names, &DocumentRouter::FindHolder);
}

StatusOr<GlobalOptions> RouteToPlace(const CommandContext& context,
                                     std::span<const DocumentName> names) {
  return Route(context, names, &DocumentRouter::FindPlace);
}

StatusOr<GlobalOptions> RouteToHolder(const CommandContext& context,
                                      const Readings<DocumentName>& names) {
  return FirstFound(
      names, [&](const DocumentName& name) { return RouteToHolder(context, std::span(&name, 1)); });
}

}  // namespace quire::cli
