// SPDX-License-Identifier: Apache-2.0
//
// ClusterKvPolicy (ClusterKV): clusters the document's keys after the sinks for each KV head, in 20
// iterations. There is one cluster for 80 tokens, 400 at most. Every 320 later tokens get four
// more. A cluster scores q.centroid, the mean over the group. Clusters are walked from the best one
// down until the slots are full. The store's pages keep the order of the text. A cluster therefore
// brings the pages that it touches, those with most of its keys first. Pages that are in no cluster
// yet are kept. Recalls precede attention.
#ifndef QUIRE_GPUWORKER_RETRIEVAL_POLICIES_CLUSTERKV_H_
#define QUIRE_GPUWORKER_RETRIEVAL_POLICIES_CLUSTERKV_H_

#include <span>
#include <vector>

#include "gpuworker/retrieval/budget_policy.h"
#include "gpuworker/retrieval/keys/key_clusters.h"
#include "gpuworker/retrieval/page_observer.h"

namespace quire::worker {

class ClusterKvPolicy final : public BudgetPolicy, public PageObserver {
 public:
  static constexpr std::string_view kName = "clusterkv";
  static constexpr uint32_t kTokensPerCluster = 80;
  static constexpr uint32_t kMaxClusters = 400;  ///< In the document.
  static constexpr uint32_t kIterations = 20;
  static constexpr uint32_t kTokensToCluster = 320;  ///< After the document, at a time.
  static constexpr uint32_t kClustersAdded = 4;      ///< For each kTokensToCluster.
  static StatusOr<std::unique_ptr<RetrievalPolicy>> Make(const PolicyContext& context);
  static RetrievalOptions Published(uint32_t page_tokens);

  std::string_view name() const override { return kName; }
  PageObserver* page_observer() override { return this; }
  bool WantsUnits(uint32_t layer) const override { return Layout(layer).selectable_pages > 0; }
  Status OnPageComplete(uint32_t layer, uint32_t page, const void* units) override;
  StatusOr<Selection> Select(const SelectRequest& request) override;

 private:
  struct Layer {
    uint32_t clustered_end = 0;               ///< Pages below are in clusters, or sinks.
    std::vector<std::vector<float>> waiting;  ///< [n_kv] keys of complete pages from there on.
    std::vector<KeyClusters> clusters;        ///< [n_kv]
  };
  explicit ClusterKvPolicy(const PolicyContext& context);
  /// Clusters what waits, when it is the document or enough.
  [[nodiscard]] Status Cluster(Layer* layer) const;
  /// How near each of the head's clusters is to its queries.
  std::vector<float> Scores(const KeyClusters& clusters, uint32_t head,
                            std::span<const float> query) const;
  /// Pages that wait to be clustered, then pages of the nearest clusters, while there is room.
  static std::vector<uint32_t> PagesOf(const SelectRequest& request, const Layer& layer,
                                       uint32_t head, std::span<const float> scores);

  const KvSpec spec_;
  Device* const device_;
  std::vector<Layer> layers_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_RETRIEVAL_POLICIES_CLUSTERKV_H_
