// SPDX-License-Identifier: Apache-2.0
//
// --server with several addresses: nodes of one cluster. A command about documents goes to the
// nodes that have them, or that they belong to. With one address it goes there, and nothing is
// asked before. Thread-safety: pure but for the calls.
#ifndef QUIRE_APPS_KIT_DOCUMENT_ROUTE_H_
#define QUIRE_APPS_KIT_DOCUMENT_ROUTE_H_

#include <memory>
#include <span>
#include <string>

#include "apps/kit/command.h"
#include "apps/kit/target.h"
#include "quire/documents.h"
#include "quire/status.h"

namespace quire::cli {

/// The options with the address of the node that has all of the documents. Errors: those of
/// DocumentRouter::FindHolder; INVALID_ARGUMENT when they lie on several nodes.
StatusOr<GlobalOptions> RouteToHolder(const CommandContext& context,
                                      std::span<const DocumentName> names);
/// A client for sessions over whatever documents are asked for, on all nodes (ClusterClient). Nodes
/// are connected to as they are needed. With one address it is ConnectForSessions.
StatusOr<SessionClient> ConnectToStore(const CommandContext& context, const std::string& transport,
                                       TimeoutOf timeout = TimeoutOf::kCommand,
                                       Health* health = nullptr);
/// A client for puts, each of which goes to the node that its document belongs to. With one address
/// it is Connect.
StatusOr<std::unique_ptr<Client>> ConnectForPuts(const CommandContext& context);
/// How pages came until now: the name of the transport, for --json.
std::string TransportName(const SessionClient& connected);
/// A client for sessions over the documents. It calls a node that has all of them, and another such
/// node after a failure. With one address it is ConnectForSessions. Errors: those of RouteToHolder
/// and of ConnectForSessions.
StatusOr<SessionClient> ConnectToHolder(const CommandContext& context,
                                        std::span<const DocumentName> names,
                                        const std::string& transport);
/// RouteToHolder for one document, whose text may be read in two ways.
StatusOr<GlobalOptions> RouteToHolder(const CommandContext& context,
                                      const Readings<DocumentName>& names);

}  // namespace quire::cli

#endif  // QUIRE_APPS_KIT_DOCUMENT_ROUTE_H_
