// SPDX-License-Identifier: Apache-2.0
#include "apps/kit/documents/document_query.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace quire::cli {
namespace {

constexpr uint32_t kPageSize = 1000;

}  // namespace

std::string FilterValue(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

StatusOr<std::vector<Document>> ReadDocuments(ListOptions options, Client& client, uint64_t limit) {
  std::vector<Document> documents;
  options.page_size = kPageSize;
  do {
    QUIRE_ASSIGN_OR_RETURN(DocumentPage page, client.ListDocuments(options));
    std::ranges::move(page.documents, std::back_inserter(documents));
    options.page_token = std::move(page.next_page_token);
  } while (!options.page_token.empty() && documents.size() < limit);
  if (documents.size() > limit) documents.resize(limit);
  return documents;
}

}  // namespace quire::cli
