// SPDX-License-Identifier: Apache-2.0
//
// Lexer of templates: text, and the words within {{ }} and {% %}. It removes white space as Jinja
// does with trim_blocks and lstrip_blocks, which chat templates are written for. Thread-safety:
// pure.
#ifndef QUIRE_GPUWORKER_TEXT_CHAT_JINJA_LEXER_H_
#define QUIRE_GPUWORKER_TEXT_CHAT_JINJA_LEXER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "quire/status.h"

namespace quire::worker::jinja {

/// A place in a template, both counted from 1. Columns are characters.
struct Place {
  uint32_t line = 1;
  uint32_t column = 1;
};

/// INVALID_ARGUMENT: "line 3, column 7: <what>".
template <typename... Parts>
Status ErrorAt(Place place, const Parts&... what) {
  return InvalidArgument("line ", place.line, ", column ", place.column, ": ", what...);
}

enum class WordKind : uint8_t {
  kText,        ///< Outside of all tags.
  kBeginValue,  ///< {{
  kEndValue,    ///< }}
  kBeginBlock,  ///< {%
  kEndBlock,    ///< %}
  kName,
  kString,
  kInteger,
  kSign,  ///< An operator or a bracket.
  kEnd    ///< The end of the template.
};

struct Word {
  WordKind kind = WordKind::kEnd;
  std::string text;  ///< A string without its quotes and escapes; otherwise as written.
  Place place;
};

/// The words of `text`, which is valid UTF-8. The last one is kEnd. INVALID_ARGUMENT with line and
/// column for a tag, comment or string without an end, and for a character without a meaning. The
/// same for a tag of more than a thousand words.
StatusOr<std::vector<Word>> Lex(std::string_view text);

}  // namespace quire::worker::jinja

#endif  // QUIRE_GPUWORKER_TEXT_CHAT_JINJA_LEXER_H_
