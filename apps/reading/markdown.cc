// SPDX-License-Identifier: Apache-2.0
#include "apps/reading/markdown.h"

#include <cmark-gfm-core-extensions.h>
#include <cmark-gfm.h>

#include <cstdlib>
#include <memory>

#include "common/base/utf8.h"

namespace quire::cli {
namespace {

constexpr int kNoWrapping = 0;

using Parser = std::unique_ptr<cmark_parser, decltype(&cmark_parser_free)>;
using Node = std::unique_ptr<cmark_node, decltype(&cmark_node_free)>;
using Rendered = std::unique_ptr<char, decltype(&std::free)>;

Parser MakeParser() {
  cmark_gfm_core_extensions_ensure_registered();
  Parser parser(cmark_parser_new(CMARK_OPT_DEFAULT), cmark_parser_free);
  for (const char* const name : {"table", "strikethrough", "autolink", "tasklist"}) {
    cmark_parser_attach_syntax_extension(parser.get(), cmark_find_syntax_extension(name));
  }
  return parser;
}

}  // namespace

std::string MarkdownToText(std::string_view markdown) {
  const Parser parser = MakeParser();
  cmark_parser_feed(parser.get(), markdown.data(), markdown.size());
  const Node root(cmark_parser_finish(parser.get()), cmark_node_free);
  const Rendered text(cmark_render_plaintext(root.get(), CMARK_OPT_DEFAULT, kNoWrapping),
                      std::free);
  // cmark writes the noncharacters U+FFFE and U+FFFF as bytes of no character.
  return ReplaceInvalidUtf8(text.get());
}

}  // namespace quire::cli
