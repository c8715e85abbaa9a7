// SPDX-License-Identifier: Apache-2.0
//
// HTML to text, parsed by gumbo as browsers parse it. Scripts, styles and the head are dropped,
// block elements begin lines, and entities are decoded. Pure; thread-safe.
#ifndef QUIRE_APPS_READING_HTML_H_
#define QUIRE_APPS_READING_HTML_H_

#include <string>
#include <string_view>

#include "quire/status.h"

namespace quire::cli {

/// Visible text of a page in UTF-8. INVALID_ARGUMENT, with an offset into `html`, for a page with
/// other characters than ASCII that declares another encoding.
StatusOr<std::string> HtmlToText(std::string_view html);

}  // namespace quire::cli

#endif  // QUIRE_APPS_READING_HTML_H_
