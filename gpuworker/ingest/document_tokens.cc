// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/ingest/document_tokens.h"

namespace quire::worker {

StatusOr<std::vector<TokenId>> DocumentTokens(const Tokenizer& tokenizer, std::string_view text) {
  QUIRE_ASSIGN_OR_RETURN(std::vector<TokenId> tokens, tokenizer.Encode(text));
  tokens.insert(tokens.begin(), tokenizer.starts().begin(), tokenizer.starts().end());
  return tokens;
}

}  // namespace quire::worker
