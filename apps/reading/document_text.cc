// SPDX-License-Identifier: Apache-2.0
#include "apps/reading/document_text.h"

#include "apps/reading/encoding.h"
#include "apps/reading/html.h"
#include "apps/reading/markdown.h"

namespace quire::cli {
namespace {

StatusOr<std::string> Convert(std::string_view text, TextKind kind) {
  switch (kind) {
    case TextKind::kText:
      return std::string(text);
    case TextKind::kMarkdown:
      return MarkdownToText(text);
    case TextKind::kHtml:
      return HtmlToText(text);
  }
  return Internal("no kind of text");
}

bool HasWords(std::string_view text) {
  return text.find_first_not_of(" \t\r\n\f\v") != std::string_view::npos;
}

}  // namespace

StatusOr<DocumentText> ReadDocument(std::string_view path, std::string_view bytes,
                                    const ReadingOptions& options) {
  if (bytes.empty()) return InvalidArgument("empty; give a document with text in it");
  QUIRE_ASSIGN_OR_RETURN(const std::string_view text, TextOfBytes(bytes));
  DocumentText document;
  document.kind = options.as.value_or(KindOf(path, text));
  QUIRE_ASSIGN_OR_RETURN(document.text,
                         Convert(text, options.raw ? TextKind::kText : document.kind));
  if (!HasWords(document.text)) {
    return InvalidArgument("no words in this ", Name(document.kind), " document");
  }
  return document;
}

}  // namespace quire::cli
