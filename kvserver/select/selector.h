// SPDX-License-Identifier: Apache-2.0
//
// Selector: selects the pages that each KV head of a layer attends to (page selection of FreeKV).
// Inputs are the layer's queries and the pages' digests. Deterministic: ties go to the lower page
// name, NaN scores last. The result equals a worker's own from the same digests, and is the same
// with every kernel table.
//
// For every range it rotates the queries back by the range's offset (RopeRotation, op `rope`; not
// for 0). It pools them where the mode says so, and scores. It then pools the scores of all ranges
// together and takes the best. Thread-safety: all methods may be called concurrently.
#ifndef QUIRE_KVSERVER_SELECT_SELECTOR_H_
#define QUIRE_KVSERVER_SELECT_SELECTOR_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/base/observe/counters.h"
#include "common/base/observe/metrics.h"
#include "common/base/threads/mutex.h"
#include "kernels/api/table.h"
#include "kvserver/select/digest_blocks.h"
#include "kvserver/select/page_query.h"
#include "quire/kv_spec.h"
#include "quire/page_lists.h"
#include "quire/status.h"

namespace quire::kvserver {

class Selector {
 public:
  /// Limit of scores of one selection, n_q * candidates: 512 MiB of them.
  static constexpr uint64_t kMaxScores = uint64_t{1} << 27;

  /// `ops` must have rope, score, pool_query, pool and topk.
  explicit Selector(const kernels::KernelTable& ops);
  ~Selector();

  /// INVALID_ARGUMENT for a query of another shape than the spec's. Candidates must exist in
  /// members of `member_pages` pages, be in order and not too many. They must not need a rotation
  /// that the spec does not allow. Check before reading digests.
  [[nodiscard]] static Status Check(const KvSpec& spec, const PageQuery& query,
                                    std::span<const uint32_t> member_pages);

  /// True when `query` takes every candidate, so that no digest needs to be read.
  static bool TakesAll(const PageQuery& query) { return query.num_pages >= NumCandidates(query); }

  /// Sets `out` to n_kv lists of page names, ascending and all of the same length. `digests` has an
  /// entry of the query's kind for each range, unless the query takes all candidates or none.
  /// REQUIRES: Check.
  [[nodiscard]] Status Select(const KvSpec& spec, const PageQuery& query,
                              std::span<const DigestBlocks> digests, PageLists* out)
      QUIRE_EXCLUDES(mutex_);

  /// Scores pages from `first_page` on, as many as `scores` has, by digests of
  /// DigestKind::kContent: inner products with `queries`, [n_kv][key_dim] without rotation, summed
  /// over KV heads. REQUIRES: `digests` covers the pages.
  [[nodiscard]] Status ScoreContent(const KvSpec& spec, std::span<const float> queries,
                                    const DigestBlocks& digests, uint32_t first_page,
                                    std::span<float> scores);

  void VisitMetrics(MetricsVisitor& visit) const;

 private:
  /// Arrays of one selection, reused by the next.
  struct Scratch;
  class ScratchLease;

  Status SelectScored(const KvSpec& spec, const PageQuery& query,
                      std::span<const DigestBlocks> digests, Scratch& scratch, PageLists* out);
  /// Returns the queries that score `range`, [rows][key_dim].
  StatusOr<std::span<const float>> QueriesOf(const KvSpec& spec, const PageQuery& query,
                                             const CandidatePages& range, Scratch& scratch) const;
  Status TurnBack(const KvSpec& spec, int64_t offset, Scratch& scratch) const;
  /// Scores all ranges side by side, [rows][candidates].
  Status ScoreRanges(const KvSpec& spec, const PageQuery& query,
                     std::span<const DigestBlocks> digests, Scratch& scratch) const;

  const kernels::KernelTable& ops_;
  Counter units_scored_;
  Counter nan_scores_;
  Mutex mutex_;
  std::vector<std::unique_ptr<Scratch>> idle_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SELECT_SELECTOR_H_
