// SPDX-License-Identifier: Apache-2.0
//
// Document text: bytes of a file to the text that a model reads. Pure; thread-safe.
#ifndef QUIRE_APPS_READING_DOCUMENT_TEXT_H_
#define QUIRE_APPS_READING_DOCUMENT_TEXT_H_

#include <optional>
#include <string>
#include <string_view>

#include "apps/reading/text_kind.h"
#include "quire/status.h"

namespace quire::cli {

struct ReadingOptions {
  std::optional<TextKind> as = {};  ///< Unset: by name and content.
  bool raw = false;                 ///< Keeps markup as it is.
};

struct DocumentText {
  std::string text;  ///< UTF-8, with at least one character that is no white space.
  TextKind kind = TextKind::kText;
};

/// INVALID_ARGUMENT for bytes that are no UTF-8 text (encoding.h), for a page that declares another
/// encoding, and for a document without words. Errors do not name the path.
StatusOr<DocumentText> ReadDocument(std::string_view path, std::string_view bytes,
                                    const ReadingOptions& options = {});

}  // namespace quire::cli

#endif  // QUIRE_APPS_READING_DOCUMENT_TEXT_H_
