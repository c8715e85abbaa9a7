// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/ingest/document_tokens.h"

#include "gpuworker/text/chat/chat_prompt.h"

namespace quire::worker {

StatusOr<std::vector<TokenId>> DocumentTokens(const Tokenizer& tokenizer, std::string_view text) {
  QUIRE_ASSIGN_OR_RETURN(std::vector<TokenId> tokens, tokenizer.Encode(text));
  tokens.insert(tokens.begin(), tokenizer.starts().begin(), tokenizer.starts().end());
  return tokens;
}

StatusOr<std::vector<TokenId>> DocumentTokens(const TextOfModel& model, std::string_view text) {
  return model.chat != nullptr ? DocumentInChat(*model.chat, *model.tokenizer, text)
                               : DocumentTokens(*model.tokenizer, text);
}

}  // namespace quire::worker
