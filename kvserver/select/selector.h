// SPDX-License-Identifier: Apache-2.0
//
// Selector: picks the pages that each KV head of a layer should attend to, from the layer's queries
// and the pages' digests (FreeKV, page selection). Deterministic: ties go to the lower page, NaN
// scores last. The result equals what a worker computes from the same digests with the same kernel
// table.
// Thread-safety: all methods may be called concurrently.
#ifndef QUIRE_KVSERVER_SELECT_SELECTOR_H_
#define QUIRE_KVSERVER_SELECT_SELECTOR_H_

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/counters.h"
#include "common/base/metrics.h"
#include "common/base/status.h"
#include "common/page/kv_spec.h"
#include "kernels/api/pool.h"
#include "kernels/api/table.h"
#include "kvserver/select/digest_blocks.h"

namespace quire::kvserver {

/// What a worker asks for one layer.
struct PageQuery {
  std::vector<float> query;  ///< [n_q][key_dim], post-RoPE
  uint32_t first_page = 0;   ///< Candidates are [first_page, end_page).
  uint32_t end_page = 0;
  uint32_t num_pages = 0;  ///< Pages to select per KV head; all candidates when there are fewer.
  kernels::Pooling pooling = kernels::Pooling::kAvgSM;
  float scale = 1.0f;  ///< Multiplies scores before pooling; finite, > 0.
  friend bool operator==(const PageQuery&, const PageQuery&) = default;
};

class Selector {
 public:
  /// `ops` must have score, pool_query, pool and topk.
  explicit Selector(const kernels::KernelTable& ops) : ops_(ops) {}

  /// INVALID_ARGUMENT when the query does not have the spec's shape or its candidates do not exist
  /// in a context of `num_context_pages`; check before reading digests.
  [[nodiscard]] static Status Check(const KvSpec& spec, const PageQuery& query,
                                    uint32_t num_context_pages);

  /// True when `query` takes every candidate, so that no digest needs to be read.
  static bool TakesAll(const PageQuery& query) {
    return query.num_pages >= query.end_page - query.first_page;
  }

  /// [n_kv] ascending page lists, all of the same length. `digests` cover the candidates, unless
  /// the query takes them all; `query` has passed Check.
  [[nodiscard]] StatusOr<std::vector<std::vector<uint32_t>>> Select(const KvSpec& spec,
                                                                    const PageQuery& query,
                                                                    const DigestBlocks& digests);

  void VisitMetrics(MetricsVisitor& visit) const;

 private:
  /// Weights of the candidates, [n_kv][candidates].
  StatusOr<std::vector<float>> Weigh(const KvSpec& spec, const PageQuery& query,
                                     const DigestBlocks& digests) const;
  StatusOr<std::vector<float>> Score(const KvSpec& spec, const PageQuery& query,
                                     std::span<const float> heads,
                                     const DigestBlocks& digests) const;

  const kernels::KernelTable& ops_;
  Counter units_scored_;
  Counter nan_scores_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SELECT_SELECTOR_H_
