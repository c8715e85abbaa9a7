// SPDX-License-Identifier: Apache-2.0
//
// Lexer of templates: text, and the words within {{ }} and {% %}. It removes white space as Jinja
// does with trim_blocks and lstrip_blocks, which is how chat templates are rendered. Thread-safety:
// pure.
#ifndef QUIRE_GPUWORKER_TEXT_JINJA_LEXER_H_
#define QUIRE_GPUWORKER_TEXT_JINJA_LEXER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace quire::worker::jinja {

enum class WordKind : uint8_t {
  kText,        ///< Outside of everything.
  kBeginValue,  ///< {{
  kEndValue,    ///< }}
  kBeginBlock,  ///< {%
  kEndBlock,    ///< %}
  kName,
  kString,
  kInteger,
  kFloat,
  kSign,  ///< An operator or a bracket.
  kEnd    ///< Of the template.
};

struct Word {
  WordKind kind = WordKind::kEnd;
  std::string text;  ///< What a string stands for; digits, name or sign as written.
  uint32_t line = 1;
};

/// INVALID_ARGUMENT naming the line of a comment, block or string that does not end, or of a
/// character that means nothing. The last word is kEnd.
StatusOr<std::vector<Word>> Lex(std::string_view text);

}  // namespace quire::worker::jinja

#endif  // QUIRE_GPUWORKER_TEXT_JINJA_LEXER_H_
