// SPDX-License-Identifier: Apache-2.0
//
// Scores of pages by their content, for a worker that selects blocks of pages itself. A score is
// the inner product of a query and a page's mean key, both without rotation, summed over KV heads.
// Scores are linear in keys: a block's score is the mean of its pages' scores.
// Thread-safety: pure functions over thread-safe parts.
#ifndef QUIRE_KVSERVER_SESSION_CONTENT_SCORES_H_
#define QUIRE_KVSERVER_SESSION_CONTENT_SCORES_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "kvserver/select/page_query.h"
#include "kvserver/session/recall_run.h"
#include "kvserver/session/session_sequence.h"
#include "kvserver/session/session_shape.h"
#include "kvserver/store/call_waits.h"
#include "quire/priority.h"
#include "quire/status.h"

namespace quire::kvserver {

/// Pages of one sequence to score, and the queries.
struct ContentQuery {
  uint32_t sequence = 0;
  std::vector<uint32_t> layers = {};        ///< Managed or not; at most as many as the model has.
  std::vector<CandidatePages> ranges = {};  ///< Each member at most once, ascending.
  std::vector<float> queries = {};  ///< [ranges][layers][n_kv][key_dim], without rotation; finite.
  Priority priority = Priority::kNormal;
  CallWaits* waits = nullptr;  ///< As Caller's.
  /// Asked before each layer of a range; an error ends the call. None when empty.
  std::function<Status()> check_wanted = {};
};

/// Returns [ranges][layers][pages of the range].
/// - INVALID_ARGUMENT: layers, members, pages or queries outside the sequence, or keys whose
///   rotation depends on the length of the context.
/// - RESOURCE_EXHAUSTED: the scores do not fit in a reply.
/// - NOT_FOUND and DATA_LOSS: digests cannot be read.
[[nodiscard]] StatusOr<std::vector<float>> ScoreContent(RecallParts& parts,
                                                        const SessionShape& shape,
                                                        SessionSequence& sequence,
                                                        const ContentQuery& query);

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SESSION_CONTENT_SCORES_H_
