// SPDX-License-Identifier: Apache-2.0
//
// Tokens of a document. Pure; thread-safe.
#ifndef QUIRE_GPUWORKER_DOCUMENTS_DOCUMENT_TOKENS_H_
#define QUIRE_GPUWORKER_DOCUMENTS_DOCUMENT_TOKENS_H_

#include <string_view>
#include <vector>

#include "gpuworker/text/tokenizer.h"
#include "quire/key.h"
#include "quire/status.h"

namespace quire::worker {

/// Token ids of a document's text, with what the tokenizer puts before it: what is stored, and what
/// a question continues. Errors are those of Tokenizer::Encode.
StatusOr<std::vector<TokenId>> DocumentTokens(const Tokenizer& tokenizer, std::string_view text);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_DOCUMENTS_DOCUMENT_TOKENS_H_
