// SPDX-License-Identifier: Apache-2.0
//
// CompactPlan: a plan whose positions follow one another without the tokens that no layer reads. A
// prompt that is longer than the model's context may fit then. Pieces of documents get positions of
// their own, so their keys are turned by other moves.
// Thread-safety: pure function. Units: tokens.
#ifndef QUIRE_GPUWORKER_CONTEXT_COMPACT_PLAN_H_
#define QUIRE_GPUWORKER_CONTEXT_COMPACT_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gpuworker/context/prompt_layout.h"
#include "gpuworker/context/reuse_plan.h"
#include "quire/kv_spec.h"
#include "quire/status.h"

namespace quire::worker {

/// Tokens of a document that follow one another in it and in the prompt.
struct PlacedPiece {
  size_t document = 0;  ///< Index into PromptLayout::sources.
  PlacedSource placed;
};

struct CompactPrompt {
  std::vector<PlacedPiece> pieces;  ///< In the order of the prompt.
  uint64_t tokens = 0;              ///< Tokens of documents and question.
};

/// Renumbers the positions of `plan`, which was made for `layout`. INVALID_ARGUMENT where `rope`
/// depends on the length of the context.
StatusOr<CompactPrompt> Compact(const PromptLayout& layout, const RopeSpec& rope, ReusePlan* plan);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_CONTEXT_COMPACT_PLAN_H_
