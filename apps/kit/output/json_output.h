// SPDX-License-Identifier: Apache-2.0
//
// Output of --json: exactly one line on stdout, an object whose keys keep the order they were set
// in. On failure the object is {"error": {"code": "NOT_FOUND", "message": "..."}}.
#ifndef QUIRE_APPS_KIT_OUTPUT_JSON_OUTPUT_H_
#define QUIRE_APPS_KIT_OUTPUT_JSON_OUTPUT_H_

#include <iosfwd>
#include <span>

#include "nlohmann/json.hpp"
#include "quire/client.h"
#include "quire/status.h"

namespace quire::cli {

using Json = nlohmann::ordered_json;

/// Writes `value` as one line. Bytes that are not UTF-8 become U+FFFD.
void PrintJsonLine(std::ostream& out, const Json& value);

Json ToJson(const Status& error);
Json ToJson(const Tags& tags);
/// "expires_unix_micros" is null for a document that lives for ever.
Json ToJson(const Document& document);
/// "ttl_seconds" is null when there is none.
Json ToJson(const Collection& collection);
/// {"documents": [...]}
Json DocumentsJson(std::span<const Document> documents);
Json ToJson(const ContextStat& stat);
Json ToJson(const ServerStats& stats);

}  // namespace quire::cli

#endif  // QUIRE_APPS_KIT_OUTPUT_JSON_OUTPUT_H_
