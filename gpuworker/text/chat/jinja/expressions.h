// SPDX-License-Identifier: Apache-2.0
//
// Parser of expressions, with Jinja's precedence. Weakest first: if-else, or, and, not,
// comparisons,
// + -, ~, * // %, signs. Attributes, subscripts, calls, filters and tests bind strongest.
// Thread-safety: none.
#ifndef QUIRE_GPUWORKER_TEXT_CHAT_JINJA_EXPRESSIONS_H_
#define QUIRE_GPUWORKER_TEXT_CHAT_JINJA_EXPRESSIONS_H_

#include "gpuworker/text/chat/jinja/node.h"
#include "gpuworker/text/chat/jinja/word_reader.h"
#include "quire/status.h"

namespace quire::worker::jinja {

/// Reads an expression. INVALID_ARGUMENT with line and column for unknown filters and tests too.
StatusOr<ExpressionPtr> ParseExpression(WordReader& words);
/// Reads an expression that ends before `if`.
StatusOr<ExpressionPtr> ParseUnconditional(WordReader& words);

}  // namespace quire::worker::jinja

#endif  // QUIRE_GPUWORKER_TEXT_CHAT_JINJA_EXPRESSIONS_H_
