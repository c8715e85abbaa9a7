// SPDX-License-Identifier: Apache-2.0
//
// How people name things on the command line.
//
//   document  [COLLECTION/]NAME[@VERSION]   without a version (or @0): the latest, for rm all.
//             A name that itself ends in @digits is written with @0 after it.
//   segment   its key, 64 hexadecimal digits
#ifndef QUIRE_CLIENT_CLI_TARGET_H_
#define QUIRE_CLIENT_CLI_TARGET_H_

#include <string>
#include <string_view>

#include "client/client.h"
#include "common/base/status.h"

namespace quire::cli {

/// `collection` is meant when the text names none. INVALID_ARGUMENT when the text is not of that
/// form.
StatusOr<DocumentName> ParseDocumentName(std::string_view text, std::string_view collection);

/// A key for 64 hexadecimal digits, a document for everything else.
StatusOr<ContextRef> ParseTarget(std::string_view text, std::string_view collection);

/// COLLECTION/NAME@VERSION; without "@VERSION" for version 0.
std::string FormatName(const DocumentName& name);

}  // namespace quire::cli

#endif  // QUIRE_CLIENT_CLI_TARGET_H_
