// SPDX-License-Identifier: Apache-2.0
//
// TextKind: the markup of a document. Pure; thread-safe.
#ifndef QUIRE_APPS_READING_TEXT_KIND_H_
#define QUIRE_APPS_READING_TEXT_KIND_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace quire::cli {

enum class TextKind : uint8_t { kText, kMarkdown, kHtml };

/// "text", "markdown" or "html".
std::string_view Name(TextKind kind);
/// Kind of that name; nullopt for another.
std::optional<TextKind> ParseTextKind(std::string_view name);

/// Kind by the extension of `path`. Without a known one, text that begins as an HTML page is HTML.
TextKind KindOf(std::string_view path, std::string_view text);

}  // namespace quire::cli

#endif  // QUIRE_APPS_READING_TEXT_KIND_H_
