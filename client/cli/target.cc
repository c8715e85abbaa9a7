// SPDX-License-Identifier: Apache-2.0
#include "client/cli/target.h"

#include <charconv>

#include "common/wire/convert.h"

namespace quire::cli {

StatusOr<DocumentName> ParseDocumentName(std::string_view text, std::string_view collection) {
  DocumentName name;
  const size_t slash = text.find('/');
  name.collection = slash == std::string_view::npos ? collection : text.substr(0, slash);
  std::string_view rest = slash == std::string_view::npos ? text : text.substr(slash + 1);
  const size_t at = rest.rfind('@');
  if (at != std::string_view::npos) {
    const char* const end = rest.data() + rest.size();
    const auto parsed = std::from_chars(rest.data() + at + 1, end, name.version);
    if (parsed.ec == std::errc() && parsed.ptr == end) {
      rest = rest.substr(0, at);
    } else if (parsed.ec == std::errc::result_out_of_range) {
      return InvalidArgument("the version in '", text, "' is too large");
    } else {
      name.version = 0;
    }
  }
  name.name = rest;
  const Status status = wire::CheckName(name.collection, "collection");
  if (!status.ok()) return Annotate(status, "'", text, "'");
  QUIRE_RETURN_IF_ERROR(Annotate(wire::CheckName(name.name, "name"), "'", text, "'"));
  return name;
}

StatusOr<ContextRef> ParseTarget(std::string_view text, std::string_view collection) {
  if (const auto key = SegmentKey::FromHex(text)) return ContextRef(*key);
  QUIRE_ASSIGN_OR_RETURN(DocumentName name, ParseDocumentName(text, collection));
  return ContextRef(std::move(name));
}

std::string FormatName(const DocumentName& name) {
  std::string text = name.collection + "/" + name.name;
  if (name.version != 0) text.append(1, '@').append(std::to_string(name.version));
  return text;
}

}  // namespace quire::cli
