// SPDX-License-Identifier: Apache-2.0
//
// Scores of pages that lie on several nodes. SplitScoring asks each node for the candidates that it
// has; MergeScores puts the scores into the order in which one server answers: by candidate, layer
// and page, which is the order of page names. A page's score depends on its own digest and the
// query only, so that it is the same number wherever it is computed. Whoever selects sees the list
// of one node, and breaks ties by its own rule: the lower page name, where that is a recall's.
// Thread-safety: pure functions.
#ifndef QUIRE_CLIENT_SPANNING_SCORE_MERGE_H_
#define QUIRE_CLIENT_SPANNING_SCORE_MERGE_H_

#include <cstddef>
#include <span>
#include <vector>

#include "client/spanning/sequence_places.h"
#include "quire/kv_spec.h"
#include "quire/session.h"
#include "quire/status.h"

namespace quire::internal {

/// What one fragment is asked for.
struct FragmentScoring {
  size_t fragment = 0;
  ContentScoring scoring;          ///< Its sequence is the caller's to set.
  std::vector<size_t> candidates;  ///< Which of the candidates they are, ascending.
};

/// One entry for each fragment that has candidates. INVALID_ARGUMENT for a member that there is
/// not, or queries of another number.
StatusOr<std::vector<FragmentScoring>> SplitScoring(const SequencePlaces& places,
                                                    const KvSpec& spec,
                                                    const ContentScoring& wanted);

/// [candidates][layers][pages]. `scores` answers `asked`, of the numbers that it asked for.
std::vector<float> MergeScores(const ContentScoring& wanted, std::span<const FragmentScoring> asked,
                               std::span<const std::vector<float>> scores);

}  // namespace quire::internal

#endif  // QUIRE_CLIENT_SPANNING_SCORE_MERGE_H_
