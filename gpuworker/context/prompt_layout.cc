// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/context/prompt_layout.h"

#include <algorithm>

namespace quire::worker {

StatusOr<PromptLayout> LayOutPrompt(std::span<const StoredSource> sources, uint64_t question_tokens,
                                    const RopeSpec& rope, uint64_t max_positions) {
  if (sources.empty()) return InvalidArgument("a prompt of no documents");
  if (question_tokens == 0) return InvalidArgument("a prompt without a question");
  PromptLayout layout{.question_tokens = question_tokens};
  for (const StoredSource& source : sources) {
    const bool skips = source.has_bos && !layout.sources.empty();
    PlacedSource placed{.skipped = skips ? 1u : 0u, .first = layout.question_first};
    placed.tokens = source.tokens - std::min(placed.skipped, source.tokens);
    placed.move = static_cast<int64_t>(placed.first) -
                  static_cast<int64_t>(source.first_position + placed.skipped);
    if (placed.move != 0 && rope.scaling == RopeScaling::kDynamic) {
      return InvalidArgument("document ", layout.sources.size() + 1, " has to move by ",
                             placed.move, " positions, and the model's rotation depends on the ",
                             "length of the context; only the first document can be reused");
    }
    layout.question_first += placed.tokens;
    layout.sources.push_back(placed);
  }
  if (layout.tokens() > max_positions) {
    return InvalidArgument("documents and question have ", layout.tokens(), " tokens, ",
                           layout.tokens() - max_positions, " more than the model's context of ",
                           max_positions, "; leave out a document");
  }
  return layout;
}

}  // namespace quire::worker
