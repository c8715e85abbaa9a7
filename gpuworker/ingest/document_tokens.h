// SPDX-License-Identifier: Apache-2.0
//
// Tokens of a document. Pure; thread-safe.
#ifndef QUIRE_GPUWORKER_INGEST_DOCUMENT_TOKENS_H_
#define QUIRE_GPUWORKER_INGEST_DOCUMENT_TOKENS_H_

#include <string_view>
#include <vector>

#include "gpuworker/text/text_of_model.h"
#include "gpuworker/text/tokenizer.h"
#include "quire/key.h"
#include "quire/status.h"

namespace quire::worker {

/// Token ids of a document's text as it is, behind those that the tokenizer begins texts with.
/// Errors are those of Tokenizer::Encode.
StatusOr<std::vector<TokenId>> DocumentTokens(const Tokenizer& tokenizer, std::string_view text);

/// Token ids to store of a document's text: in the chat template where there is one. `model` has a
/// tokenizer. Errors are those of Tokenizer::Encode and DocumentInChat.
StatusOr<std::vector<TokenId>> DocumentTokens(const TextOfModel& model, std::string_view text);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_INGEST_DOCUMENT_TOKENS_H_
