// SPDX-License-Identifier: Apache-2.0
//
// PromptLayout: where documents that were prefilled alone, and a question after them, lie in one
// prompt. Documents keep their order and follow one another without gaps. A document's beginning
// token stays with the first document only.
// Thread-safety: pure function. Units: tokens. Errors: INVALID_ARGUMENT.
#ifndef QUIRE_GPUWORKER_CONTEXT_PROMPT_LAYOUT_H_
#define QUIRE_GPUWORKER_CONTEXT_PROMPT_LAYOUT_H_

#include <cstdint>
#include <span>
#include <vector>

#include "quire/kv_spec.h"
#include "quire/status.h"

namespace quire::worker {

/// A document as it is stored.
struct StoredSource {
  uint64_t tokens = 0;
  uint64_t first_position = 0;  ///< Position of its first token at its prefill.
  bool has_bos = false;
};

/// A document in the prompt.
struct PlacedSource {
  uint64_t skipped = 0;  ///< Stored tokens that are left out at its beginning.
  uint64_t tokens = 0;   ///< Tokens that remain.
  uint64_t first = 0;    ///< Position of the first of them in the prompt.
  int64_t move = 0;      ///< Positions that its stored keys are turned by.
};

struct PromptLayout {
  std::vector<PlacedSource> sources;
  uint64_t question_first = 0;
  uint64_t question_tokens = 0;

  uint64_t tokens() const { return question_first + question_tokens; }
};

/// Lays out the documents, in this order, and the question. INVALID_ARGUMENT:
/// - a key has to be turned, and `rope` depends on the length of the context;
/// - the prompt is longer than `max_positions`; the message says by how much;
/// - there is no document or no question.
StatusOr<PromptLayout> LayOutPrompt(std::span<const StoredSource> sources, uint64_t question_tokens,
                                    const RopeSpec& rope, uint64_t max_positions);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_CONTEXT_PROMPT_LAYOUT_H_
