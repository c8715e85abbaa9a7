// SPDX-License-Identifier: Apache-2.0
//
// Documents and collections for a page: parameters of a request, and answers as JSON. A request
// does bounded work. When that ends before a page of results is full, its "next" goes on from
// there. Thread-safety: as DocumentRegistry. Errors: {"error": TEXT} with a code of HTTP.
#ifndef QUIRE_APPS_QUIRED_STATUS_DOCUMENT_SEARCH_H_
#define QUIRE_APPS_QUIRED_STATUS_DOCUMENT_SEARCH_H_

#include <string>
#include <string_view>

#include "common/metrics/http_request.h"
#include "kvserver/registry/document_registry.h"
#include "kvserver/session/context/context_resolver.h"

namespace quire::kvserver {

/// Longest text that is looked for, in bytes.
inline constexpr size_t kMaxSearchBytes = 1024;

/// The filter of what a person looks for. Text with one of = < > ~ is a filter. Otherwise each word
/// must be in the name or in the collection.
std::string FilterOfSearch(std::string_view text);

/// `tenant`, `q` (FilterOfSearch), `limit` (1..100), `after` (a "next"):
/// {"documents": [...], "next": TOKEN}, newest first. "next" is empty after the last one.
HttpReply SearchDocuments(DocumentRegistry& registry, std::string_view query);

/// `tenant`, `after`: {"collections": [...], "next": TOKEN}, those with settings of their own.
HttpReply ListCollections(DocumentRegistry& registry, std::string_view query);

/// Most cells of a strip of pages.
inline constexpr size_t kMostCells = 512;

/// `tenant`, `collection`, `name`, `version`: the use of a document's pages, {"pages": N,
/// "page_tokens": N, "used": N, "first_pages": [...], "uses": [...]}. Each of up to kMostCells
/// cells has the most used of its pages. Thread-safety: as ContextResolver.
HttpReply ShowPages(ContextResolver& resolver, std::string_view query);

/// An answer of JSON for `status`, which is an error.
HttpReply JsonError(const Status& status);

}  // namespace quire::kvserver

#endif  // QUIRE_APPS_QUIRED_STATUS_DOCUMENT_SEARCH_H_
