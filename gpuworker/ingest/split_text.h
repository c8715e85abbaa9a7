// SPDX-License-Identifier: Apache-2.0
//
// SplitText: divides a text into parts that a model can read. Pure; thread-safe.
#ifndef QUIRE_GPUWORKER_DOCUMENTS_SPLIT_TEXT_H_
#define QUIRE_GPUWORKER_DOCUMENTS_SPLIT_TEXT_H_

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "quire/status.h"

namespace quire::worker {

/// Tokens of a text.
using CountTokens = std::function<StatusOr<uint64_t>(std::string_view)>;

/// Parts of `text` in order, which together are the whole of it. A part ends behind a paragraph,
/// else behind a line, a word or a character, and its pieces count at most `most_tokens` together.
/// INVALID_ARGUMENT when one character has more tokens than that. Errors of `count` are returned.
StatusOr<std::vector<std::string_view>> SplitText(std::string_view text, uint64_t most_tokens,
                                                  const CountTokens& count);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_DOCUMENTS_SPLIT_TEXT_H_
