// SPDX-License-Identifier: Apache-2.0
//
// Selector: picks the pages that each KV head of a layer should attend to, from the layer's queries
// and the pages' digests (FreeKV, page selection). Deterministic: ties go to the lower page name,
// NaN scores last. The result equals what a worker computes from the same digests: for every range
// it turns the queries back by the range's offset (RopeRotation, op `rope`; not at all for 0),
// pools them where the mode says so, and scores; then it pools the scores of all ranges together
// and takes the best. Every kernel table gives the same.
// Thread-safety: all methods may be called concurrently.
#ifndef QUIRE_KVSERVER_SELECT_SELECTOR_H_
#define QUIRE_KVSERVER_SELECT_SELECTOR_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/base/counters.h"
#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "kernels/api/table.h"
#include "kvserver/select/digest_blocks.h"
#include "kvserver/select/page_query.h"
#include "quire/kv_spec.h"
#include "quire/page_lists.h"
#include "quire/status.h"

namespace quire::kvserver {

class Selector {
 public:
  /// Scores that one selection may take, n_q * candidates: 512 MiB of them.
  static constexpr uint64_t kMaxScores = uint64_t{1} << 27;

  /// `ops` must have rope, score, pool_query, pool and topk.
  explicit Selector(const kernels::KernelTable& ops);
  ~Selector();

  /// INVALID_ARGUMENT when the query does not have the spec's shape, or its candidates do not exist
  /// in members of `member_pages` pages, are not in order, are too many, or would have to be
  /// rotated where the spec does not allow it. Check before reading digests.
  [[nodiscard]] static Status Check(const KvSpec& spec, const PageQuery& query,
                                    std::span<const uint32_t> member_pages);

  /// True when `query` takes every candidate, so that no digest needs to be read.
  static bool TakesAll(const PageQuery& query) { return query.num_pages >= NumCandidates(query); }

  /// Makes `out` n_kv lists of page names, ascending and all of the same length. `digests` has an
  /// entry for each range that covers it, of the query's kind, unless the query takes all
  /// candidates or none. `query` has passed Check.
  [[nodiscard]] Status Select(const KvSpec& spec, const PageQuery& query,
                              std::span<const DigestBlocks> digests, PageLists* out)
      QUIRE_EXCLUDES(mutex_);

  void VisitMetrics(MetricsVisitor& visit) const;

 private:
  /// The arrays of one selection, kept for the next.
  struct Scratch;
  class ScratchLease;

  Status SelectScored(const KvSpec& spec, const PageQuery& query,
                      std::span<const DigestBlocks> digests, Scratch& scratch, PageLists* out);
  /// The queries of `range` to score with, [rows][key_dim].
  StatusOr<std::span<const float>> QueriesOf(const KvSpec& spec, const PageQuery& query,
                                             const CandidatePages& range, Scratch& scratch) const;
  Status TurnBack(const KvSpec& spec, int64_t offset, Scratch& scratch) const;
  /// Scores of all ranges side by side, [rows][candidates].
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
