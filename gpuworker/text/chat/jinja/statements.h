// SPDX-License-Identifier: Apache-2.0
//
// Parser of a whole template. Blocks: if, for (with a condition, else, break and continue), set,
// macro, generation. Thread-safety: none.
#ifndef QUIRE_GPUWORKER_TEXT_CHAT_JINJA_STATEMENTS_H_
#define QUIRE_GPUWORKER_TEXT_CHAT_JINJA_STATEMENTS_H_

#include "gpuworker/text/chat/jinja/node.h"
#include "gpuworker/text/chat/jinja/word_reader.h"
#include "quire/status.h"

namespace quire::worker::jinja {

/// INVALID_ARGUMENT with line and column.
StatusOr<StatementPtr> ParseTemplate(WordReader words);

}  // namespace quire::worker::jinja

#endif  // QUIRE_GPUWORKER_TEXT_CHAT_JINJA_STATEMENTS_H_
