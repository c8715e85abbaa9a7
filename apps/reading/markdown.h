// SPDX-License-Identifier: Apache-2.0
//
// Markdown to text, by cmark-gfm: tables, strikethrough and task lists included. Marks, link
// targets and HTML blocks are dropped. Thread-safe.
#ifndef QUIRE_APPS_READING_MARKDOWN_H_
#define QUIRE_APPS_READING_MARKDOWN_H_

#include <string>
#include <string_view>

namespace quire::cli {

/// Text of a Markdown document in UTF-8.
std::string MarkdownToText(std::string_view markdown);

}  // namespace quire::cli

#endif  // QUIRE_APPS_READING_MARKDOWN_H_
