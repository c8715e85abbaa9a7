// SPDX-License-Identifier: Apache-2.0
//
// TextOfModel: how text becomes a model's token ids. Ownership: the parts outlive it.
#ifndef QUIRE_GPUWORKER_TEXT_TEXT_OF_MODEL_H_
#define QUIRE_GPUWORKER_TEXT_TEXT_OF_MODEL_H_

#include <optional>

#include "gpuworker/text/chat/chat_template.h"
#include "gpuworker/text/tokenizer.h"
#include "quire/key.h"

namespace quire::worker {

struct TextOfModel {
  const Tokenizer* tokenizer = nullptr;  ///< Null: calls send token ids.
  const ChatTemplate* chat = nullptr;    ///< Null: text is read as it is. Needs a tokenizer.
};

/// The token that texts begin with; nullopt for none, or several.
inline std::optional<TokenId> BeginningToken(const TextOfModel& text) {
  if (text.tokenizer == nullptr || text.tokenizer->starts().size() != 1) return std::nullopt;
  return text.tokenizer->starts().front();
}

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_TEXT_TEXT_OF_MODEL_H_
