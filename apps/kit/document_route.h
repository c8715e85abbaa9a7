// SPDX-License-Identifier: Apache-2.0
//
// --server with several addresses: nodes of one cluster. A command about documents goes to the node
// that has them, or that they belong to. With one address it goes there, and nothing is asked
// before. Thread-safety: pure but for the calls.
#ifndef QUIRE_APPS_KIT_DOCUMENT_ROUTE_H_
#define QUIRE_APPS_KIT_DOCUMENT_ROUTE_H_

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
/// The same for the node to put the documents to.
StatusOr<GlobalOptions> RouteToPlace(const CommandContext& context,
                                     std::span<const DocumentName> names);
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
