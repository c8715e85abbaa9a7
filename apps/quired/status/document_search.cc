// SPDX-License-Identifier: Apache-2.0
#include "apps/quired/status/document_search.h"

#include <algorithm>
#include <charconv>

#include "apps/quired/status/json_reply.h"
#include "common/documents/document_state.h"
#include "common/documents/page_strip.h"
#include "kvserver/store/codec/codec.h"
#include "nlohmann/json.hpp"

namespace quire::kvserver {
namespace {

using nlohmann::json;

constexpr uint32_t kDefaultLimit = 50;
constexpr uint32_t kMaxLimit = 100;

std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted.push_back('\\');
    quoted.push_back(c);
  }
  return quoted + "\"";
}

json JsonOf(const Document& document) {
  return {{"collection", document.name.collection},
          {"name", document.name.name},
          {"version", document.name.version},
          {"state", StateName(document.state)},
          {"latest", document.is_latest},
          {"pinned", document.pinned},
          {"tokens", document.num_tokens},
          {"bytes", document.bytes},
          {"model", document.model},
          {"segments_lost", document.segments_lost},
          {"created_unix_micros", document.created_unix_micros},
          {"expires_unix_micros", document.expires_unix_micros},
          {"questions", document.statistics.questions},
          {"last_used_unix_micros", document.statistics.last_used_unix_micros}};
}

StatusOr<std::string> Parameter(std::string_view query, std::string_view name) {
  if (query.find(name) == std::string_view::npos) return std::string();
  std::string value = QueryValue(query, name).value_or("");
  if (value.size() <= kMaxSearchBytes) return value;
  return InvalidArgument(name, " has ", value.size(), " bytes: at most ", kMaxSearchBytes,
                         " are looked for");
}

/// 0 when it is not given: the latest.
StatusOr<uint64_t> Version(std::string_view query) {
  const std::string text = QueryValue(query, "version").value_or("0");
  uint64_t version = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), version);
  if (read.ec == std::errc() && read.ptr == text.data() + text.size()) return version;
  return InvalidArgument("version is '", text, "': must be a whole number");
}

StatusOr<uint32_t> Limit(std::string_view query) {
  const std::string text = QueryValue(query, "limit").value_or(std::to_string(kDefaultLimit));
  uint32_t limit = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), limit).ptr;
  if (end == text.data() + text.size() && limit >= 1 && limit <= kMaxLimit) return limit;
  return InvalidArgument("limit is '", text, "': must be 1..", kMaxLimit);
}

StatusOr<json> Search(DocumentRegistry& registry, std::string_view query) {
  QUIRE_ASSIGN_OR_RETURN(const std::string tenant, Parameter(query, "tenant"));
  QUIRE_ASSIGN_OR_RETURN(const std::string text, Parameter(query, "q"));
  QUIRE_ASSIGN_OR_RETURN(const uint32_t limit, Limit(query));
  const std::string filter = FilterOfSearch(text);
  const std::string after = QueryValue(query, "after").value_or("");
  QUIRE_ASSIGN_OR_RETURN(const DocumentRegistry::ListResult found,
                         registry.List(tenant, {.collection = {},
                                                .filter = filter,
                                                .order = DocumentRegistry::Order::kNewest,
                                                .page_size = limit,
                                                .page_token = after}));
  json documents = json::array();
  for (const Document& document : found.documents) documents.push_back(JsonOf(document));
  return json{{"documents", std::move(documents)}, {"next", found.next_page_token}};
}

StatusOr<json> Collections(DocumentRegistry& registry, std::string_view query) {
  QUIRE_ASSIGN_OR_RETURN(const std::string tenant, Parameter(query, "tenant"));
  const std::string after = QueryValue(query, "after").value_or("");
  QUIRE_ASSIGN_OR_RETURN(const auto found, registry.ListCollections(tenant, kMaxLimit, after));
  json collections = json::array();
  for (const CollectionState& collection : found.collections) {
    json ttl = nullptr;
    if (collection.ttl_seconds) ttl = *collection.ttl_seconds;
    collections.push_back({{"name", collection.name},
                           {"codec", Name(collection.codec)},
                           {"ttl_seconds", std::move(ttl)}});
  }
  return json{{"collections", std::move(collections)}, {"next", found.next_page_token}};
}

StatusOr<json> Pages(ContextResolver& resolver, std::string_view query) {
  QUIRE_ASSIGN_OR_RETURN(const std::string tenant, Parameter(query, "tenant"));
  DocumentName name;
  QUIRE_ASSIGN_OR_RETURN(name.collection, Parameter(query, "collection"));
  QUIRE_ASSIGN_OR_RETURN(name.name, Parameter(query, "name"));
  QUIRE_ASSIGN_OR_RETURN(name.version, Version(query));
  QUIRE_ASSIGN_OR_RETURN(const auto used, resolver.UsesOf(tenant, name));
  std::vector<size_t> first_pages = CellBounds(used.uses.size(), kMostCells);
  first_pages.pop_back();
  return json{{"pages", used.uses.size()},
              {"page_tokens", used.page_tokens},
              {"used", used.uses.size() - std::ranges::count(used.uses, 0u)},
              {"first_pages", first_pages},
              {"uses", CellsOf(used.uses, kMostCells)}};
}

HttpReply Reply(const StatusOr<json>& answer) {
  return answer.ok() ? JsonReply(200, *answer) : JsonError(answer.status());
}

int HttpCode(StatusCode code) {
  switch (code) {
    case StatusCode::kInvalidArgument:
      return 400;
    case StatusCode::kNotFound:
      return 404;
    case StatusCode::kPermissionDenied:
      return 403;
    default:
      return 503;
  }
}

}  // namespace

std::string FilterOfSearch(std::string_view text) {
  if (text.find_first_of("=<>~") != std::string_view::npos) return std::string(text);
  std::string filter;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    if (const std::string_view word = text.substr(0, end); !word.empty()) {
      const std::string quoted = Quoted(word);
      filter +=
          (filter.empty() ? "(name~" : " and (name~") + quoted + " or collection~" + quoted + ")";
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return filter;
}

HttpReply SearchDocuments(DocumentRegistry& registry, std::string_view query) {
  return Reply(Search(registry, query));
}

HttpReply ListCollections(DocumentRegistry& registry, std::string_view query) {
  return Reply(Collections(registry, query));
}

HttpReply ShowPages(ContextResolver& resolver, std::string_view query) {
  return Reply(Pages(resolver, query));
}

HttpReply JsonError(const Status& status) {
  return JsonReply(HttpCode(status.code()), {{"error", std::string(Message(status))}});
}

}  // namespace quire::kvserver
