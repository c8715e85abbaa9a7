// SPDX-License-Identifier: Apache-2.0
//
// Token ids of conversations, without and with a stored document (design 0042). A document is the
// beginning of the first user's message. Its tokens are everything up to its end: the template's
// words before the message, the text, and an empty line. A question goes on from there.
//
// Ids are those of transformers for the whole conversation, special tokens included. Documents are
// rendered as of one day, since their tokens must be the same on every day. Thread-safety: pure.
#ifndef QUIRE_GPUWORKER_TEXT_CHAT_CHAT_PROMPT_H_
#define QUIRE_GPUWORKER_TEXT_CHAT_CHAT_PROMPT_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "gpuworker/text/chat/chat_template.h"
#include "gpuworker/text/tokenizer.h"
#include "quire/key.h"
#include "quire/status.h"

namespace quire::worker {

/// Ids to store of a document. INVALID_ARGUMENT for a template that does not show it.
StatusOr<std::vector<TokenId>> DocumentInChat(const ChatTemplate& chat, const Tokenizer& tokenizer,
                                              std::string_view text);

/// Ids that follow those of a document. Errors are Render's, and INVALID_ARGUMENT when no message
/// is the user's. The same for a message of the system, which would stand before the document.
StatusOr<std::vector<TokenId>> QuestionInChat(const ChatTemplate& chat, const Tokenizer& tokenizer,
                                              std::vector<ChatMessage> messages);

/// Ids of a conversation without a document, up to the model's answer.
StatusOr<std::vector<TokenId>> ConversationInChat(const ChatTemplate& chat,
                                                  const Tokenizer& tokenizer,
                                                  std::span<const ChatMessage> messages,
                                                  int64_t now_seconds);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_TEXT_CHAT_CHAT_PROMPT_H_
