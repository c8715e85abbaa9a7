// SPDX-License-Identifier: Apache-2.0
//
// DigestSelector: the selection that Quest, FreeKV and their relatives share. It keeps the digests
// of every page, and scores candidates with a query. Group-consistent pooling gives one weight per
// KV head, and the best pages are selected. With selection at the server it keeps nothing, and the
// query travels instead. Ownership: owns its device memory; the device outlives it. Thread-safety:
// none.
#ifndef QUIRE_GPUWORKER_RETRIEVAL_DIGESTS_DIGEST_SELECTOR_H_
#define QUIRE_GPUWORKER_RETRIEVAL_DIGESTS_DIGEST_SELECTOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/threads/executor.h"
#include "gpuworker/device/joint_work.h"
#include "gpuworker/retrieval/digests/layer_digests.h"
#include "gpuworker/retrieval/policy.h"
#include "quire/status.h"

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
  /// Waits until neither the device nor the executor uses anything of it any more.
  ~DigestSelector();
  DigestSelector(const DigestSelector&) = delete;
  DigestSelector& operator=(const DigestSelector&) = delete;

  bool at_worker() const { return options_.side == SelectionSide::kWorker; }
  /// PageObserver::WantedDigests of a layer with pages to select from.
  std::optional<kernels::DigestKind> WantedDigests() const {
    return at_worker() ? std::optional(options_.kind) : std::nullopt;
  }
  /// PageObserver::OnPrefillLayer. DATA_LOSS unless `digests` are of as many pages.
  [[nodiscard]] Status OnPrefillLayer(uint32_t layer, uint32_t num_pages,
                                      std::shared_ptr<const StoredDigests> digests);
  /// PageObserver::OnPageComplete. FAILED_PRECONDITION when a page has been left out.
  [[nodiscard]] Status OnPageComplete(uint32_t layer, uint32_t page, const void* units);
  /// PageObserver::AddPage.
  [[nodiscard]] Status AddPage(uint32_t layer, uint32_t page, const void* units, JointWork* work);

  /// RetrievalPolicy::Prepare.
  [[nodiscard]] Status Prepare(const SelectRequest& request, JointWork* work);
  /// RetrievalPolicy::BeginSelect. False where nothing is gained, or without an executor to use.
  StatusOr<bool> Begin(const SelectRequest& request);
  /// RetrievalPolicy::Select.
  StatusOr<Selection> Select(const SelectRequest& request);
  /// Scores of all candidates before pooling, [n_q][candidates], in host memory. At the worker
  /// only, with a pooling that does not pool the query.
  StatusOr<std::vector<float>> Scores(const SelectRequest& request);

 private:
  /// A selection that the device was given.
  struct Begun {
    PinnedBytes found;  ///< Layout of DigestSelector::found_.
    size_t size_bytes = 0;
    std::unique_ptr<DeviceEvent> copied;  ///< Signals that the copy of `found` is done.
    bool pending = false;                 ///< Select answers with `found`.
  };
  /// A selection that the executor makes. Thread-safe.
  class BackgroundSelection;

  /// FAILED_PRECONDITION unless `page` is the next to have a digest.
  Status CheckNext(uint32_t layer, uint32_t page) const;
  StatusOr<bool> BeginOnDevice(const SelectRequest& request);
  StatusOr<bool> BeginInBackground(const SelectRequest& request);
  /// Waits for the background selection, and keeps its result.
  void AwaitBackground() const;
  StatusOr<Selection> SelectNow(const SelectRequest& request);
  /// Scores, and pools into pooled_.
  Status Weigh(const SelectRequest& request);
  /// Settings of scoring and of pooling, without arrays.
  kernels::ScoreArgs ScoreSettings() const;
  kernels::PoolArgs PoolSettings() const;
  /// Calls `score` with each part of the candidates' digests, for the queries `q`.
  template <typename ScorePart>
  Status ForEachPart(const SelectRequest& request, const float* q, ScorePart score);
  /// The queries to score with: those of the request, or pooled ones.
  StatusOr<const float*> ScoringQueries(const SelectRequest& request);
  /// Room for `pages` candidates in the scratch buffers.
  Status Reserve(uint32_t pages);
  /// Scores into scores_, [n_q][candidates] or, where the query is pooled, [n_kv][candidates].
  Status Score(const SelectRequest& request);
  /// Rows of scores_.
  int64_t ScoreRows() const;
  /// Finds the best of pooled_, and counts its NaN, into found_.
  Status TopK(const SelectRequest& request);
  size_t FoundBytes(const SelectRequest& request) const;
  /// The selection for `found`, in host memory.
  Selection ToSelection(const int32_t* found, uint32_t pages_per_head) const;

  const KvSpec spec_;
  Device* const device_;
  Executor* const executor_;
  const Options options_;
  std::vector<LayerDigests> digests_;  ///< [num_layers]; stays empty with selection at the server
  DeviceBuffer pooled_query_;          ///< [n_kv][d] float, for modes that pool the query
  DeviceBuffer scores_;                ///< [n_q][candidates] float
  DeviceBuffer pooled_;                ///< [n_kv][candidates] float
  DeviceBuffer found_;                 ///< int32 [n_kv][k_sel] pages, then [n_kv] NaN weights
  Begun begun_;
  /// The selection that was prepared: ready if the work has it.
  JointWork* work_ = nullptr;
  JointWork::Ticket prepared_;
  std::vector<float> query_;                         ///< [n_q][d] of the background selection.
  std::shared_ptr<BackgroundSelection> background_;  ///< Taken by Select; null for none.
};

/// Every candidate for every head, when they fit; empty lists when there is no room at all.
/// Nullopt when there is a choice to make.
std::optional<Selection> SelectWithoutChoice(const SelectRequest& request, uint32_t num_kv_heads);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_RETRIEVAL_DIGESTS_DIGEST_SELECTOR_H_
