// SPDX-License-Identifier: Apache-2.0
//
// DigestSelector: the selection that Quest, FreeKV and their relatives share (spec A.1). It keeps
// the digests of every page, scores candidates with a query, agrees on one weight for each KV head
// by group-consistent pooling, and takes the best pages. With selection at the server it keeps
// nothing, and the query travels instead.
// Ownership: owns its device memory; the device outlives it. Thread-safety: none.
#ifndef QUIRE_GPUWORKER_RETRIEVAL_DIGEST_SELECTOR_H_
#define QUIRE_GPUWORKER_RETRIEVAL_DIGEST_SELECTOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/status.h"
#include "gpuworker/retrieval/digest_store.h"
#include "gpuworker/retrieval/policy.h"

namespace quire::worker {

class DigestSelector {
 public:
  struct Options {
    kernels::DigestKind kind = kernels::DigestKind::kMinMax;
    kernels::Pooling pooling = kernels::Pooling::kAvgSM;
    float scale = 1.0f;
    SelectionSide side = SelectionSide::kWorker;
  };
  DigestSelector(const PolicyContext& context, const Options& options);

  bool at_worker() const { return options_.side == SelectionSide::kWorker; }
  /// RetrievalPolicy::OnPrefillLayer. DATA_LOSS unless `digests` are of as many pages.
  [[nodiscard]] Status OnPrefillLayer(uint32_t layer, uint32_t num_pages,
                                      std::shared_ptr<const StoredDigests> digests);
  /// RetrievalPolicy::OnPageComplete. FAILED_PRECONDITION when a page has been left out.
  [[nodiscard]] Status OnPageComplete(uint32_t layer, uint32_t page, const void* units);

  /// RetrievalPolicy::Select.
  StatusOr<Selection> Select(const SelectRequest& request);
  /// Pooled weights of all candidates, [n_kv][candidates], in host memory. At the worker only.
  StatusOr<std::vector<float>> Weights(const SelectRequest& request);

 private:
  /// Scores and pools into pooled_.
  Status Weigh(const SelectRequest& request);
  /// Scores candidates whose digests are in `part` for `n_q` queries.
  Status ScorePart(const SelectRequest& request, const DigestStore::Part& part, const float* q,
                   int64_t n_q);
  /// Room for `pages` candidates in the scratch buffers.
  Status Reserve(uint32_t pages);
  Status Score(const SelectRequest& request);
  StatusOr<Selection> TopK(const SelectRequest& request);

  const KvSpec spec_;
  Device* const device_;
  const Options options_;
  std::vector<DigestStore> digests_;  ///< [num_layers]; stays empty with selection at the server
  DeviceBuffer pooled_query_;         ///< [n_kv][d] float, for modes that pool the query
  DeviceBuffer scores_;               ///< [n_q][candidates] float
  DeviceBuffer pooled_;               ///< [n_kv][candidates] float
  DeviceBuffer indices_;              ///< [n_kv][k_sel] int32
};

/// Every candidate for every head, when they fit; empty lists when there is no room at all.
/// Nullopt when there is a choice to make.
std::optional<Selection> SelectWithoutChoice(const SelectRequest& request, uint32_t num_kv_heads);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_RETRIEVAL_DIGEST_SELECTOR_H_
