// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes DocumentFilter: a filter that parses must take any document. Its negation must parse, and
// choose the other documents.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "kvserver/registry/filter/document_filter.h"

namespace {

quire::Document TaggedDocument() {
  quire::Document document;
  document.name = {"books", "a", 3};
  document.model = "llama";
  document.num_tokens = 1000;
  document.created_unix_micros = 1'700'000'000'000'000;
  document.tags = {{"team", "ops"}, {"pages", int64_t{12}}, {"score", 0.5}, {"public", true}};
  return document;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using quire::kvserver::DocumentFilter;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto filter = DocumentFilter::Parse(text);
  if (!filter.ok()) return 0;
  (void)filter->names_state();
  const bool blank = text.find_first_not_of(" \t\r\n") == std::string_view::npos;
  if (blank || size > 4000) return 0;
  const auto other = DocumentFilter::Parse("not (" + std::string(text) + ")");
  if (!other.ok()) return 0;  // It was at the limit of depth.
  for (const quire::Document& document : {quire::Document(), TaggedDocument()}) {
    if (filter->Matches(document) == other->Matches(document)) std::abort();
  }
  return 0;
}
