// SPDX-License-Identifier: Apache-2.0
//
// Scores of pages that lie on several nodes. SplitScoring asks each node for the candidates that it
// has. MergeScores puts the scores into the order of one server: by candidate, layer and page. Page
// names order candidates and pages likewise.
//
// A page's score depends on its own digest and the query only, so that it is the same number
// wherever it is computed. A selection therefore sees the list of one node. Its ties are the same,
// too: the lower page name comes first.
//
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

/// The scores to ask of one fragment.
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
