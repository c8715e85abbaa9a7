// SPDX-License-Identifier: Apache-2.0
//
// RecallPipeline: select, diff, fetch, convert. For one token of one layer it asks the policy for a
// selection, recalls the units that are missing (one call for the layer), puts them into their
// slots through the layout kernel, reading them where the reply has them, and makes the selection
// active.
//
//   before attention: heads whose recall blocks      after attention: the other heads, for the next
//
// Errors. A recall that fails leaves the token without its attention: the caller must not go on
// with this cache (no page that was not selected is ever attended to in its place). A reply that
// contradicts the page table is FAILED_PRECONDITION.
//
// Thread-safety: none. Ownership: everything it is given outlives it.
#ifndef QUIRE_GPUWORKER_RECALL_RECALL_PIPELINE_H_
#define QUIRE_GPUWORKER_RECALL_RECALL_PIPELINE_H_

#include <cstdint>
#include <vector>

#include "client/session.h"
#include "common/base/status.h"
#include "gpuworker/cache/budget_cache.h"
#include "gpuworker/device/device.h"
#include "gpuworker/retrieval/policy.h"

namespace quire::worker {

/// Totals.
struct RecallStats {
  uint64_t recalls = 0;         ///< Calls sent; a selection that is resident sends none.
  uint64_t bytes_moved = 0;     ///< Payload bytes that recalls brought.
  uint64_t selections = 0;      ///< Layers times steps that a selection was made for.
  uint64_t units_selected = 0;  ///< Units of every selection, resident or not.
  uint64_t units_missed = 0;    ///< Those of them that were brought.
};

class RecallPipeline {
 public:
  struct Dependencies {
    ClientSession* session = nullptr;  ///< Null when no layer has selectable pages.
    BudgetCache* cache = nullptr;
    RetrievalPolicy* policy = nullptr;
    Device* device = nullptr;
    const RetrievalOptions* options = nullptr;  ///< Pooling and scale of queries for the server.
    RecallStats* stats = nullptr;               ///< Added to; survives the pipeline.
  };
  explicit RecallPipeline(const Dependencies& dependencies);

  /// Call when the token's K and V are in the cache; `q` is its [n_q][d] query on the device.
  [[nodiscard]] Status BeforeAttention(uint32_t layer, const float* q);
  /// Call when its attention is done, with the same layer.
  [[nodiscard]] Status AfterAttention(uint32_t layer);

 private:
  /// What is left to do for a layer after attention.
  struct Deferred {
    bool pending = false;
    LayerWant want;
  };
  /// A want for `selection`; heads with `keep` set want what they hold.
  StatusOr<LayerWant> MakeWant(const SelectRequest& request, Selection selection,
                               const std::vector<bool>& keep) const;
  [[nodiscard]] Status Recall(const LayerWant& want);
  bool IsResident(const LayerWant& want) const;
  [[nodiscard]] Status Place(uint32_t layer, const RecallResult& result);
  [[nodiscard]] Status Activate(uint32_t layer, const PageLists& pages);
  void Notify(uint32_t layer, const RecallResult& result);

  const Dependencies with_;
  std::vector<Deferred> deferred_;  ///< [num_layers]
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_RECALL_RECALL_PIPELINE_H_
