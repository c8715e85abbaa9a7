// SPDX-License-Identifier: Apache-2.0
//
// ShadowKvPolicy (ShadowKV): the document's keys stay at the worker in low rank, and recalls bring
// values alone. Chunks of 8 tokens are scored by their mean key (softmax of q.mean/sqrt(d), maximum
// over the group), a page by the best of its chunks. Pages with the chunks that their mean
// represents worst (24 chunks for 1024 tokens of budget) are always selected and keep exact keys.
// The published rank is 160 for 1024 channels of all KV heads together. Other widths get the same
// share. RetrievalOptions::key_rank names another rank. Pages of the sequence itself keep exact
// keys. While all candidates fit, nothing is approximated. Recalls precede attention.
//
// Not as published: pages of the sequence itself that have left the window compete for the selected
// slots by their means, as the document's do. Published, every generated token stays attended to
// beside the budget (FreeKV's port of it makes a new SVD of them now and then). Here a layer has
// the slots of its budget from the start, since RetrievalPolicy::Layout is constant. A long answer
// that kept its pages would leave no slots to the document. Since their keys are exact there is
// nothing that a new SVD would be made for.
//
// Exact keys are kept here, in host memory: those of the document until the first choice, then
// those of its outliers. FillKeys adds exact or rebuilt keys to the values that recalls bring.
#ifndef QUIRE_GPUWORKER_RETRIEVAL_POLICIES_SHADOWKV_H_
#define QUIRE_GPUWORKER_RETRIEVAL_POLICIES_SHADOWKV_H_

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/page/rope_rotation.h"
#include "gpuworker/retrieval/budget_policy.h"
#include "gpuworker/retrieval/key_source.h"
#include "gpuworker/retrieval/keys/low_rank_keys.h"
#include "gpuworker/retrieval/page_observer.h"

namespace quire::worker {

class ShadowKvPolicy final : public BudgetPolicy, public PageObserver, public KeySource {
 public:
  static constexpr std::string_view kName = "shadowkv";
  static constexpr uint32_t kChunkTokens = 8;
  static constexpr uint32_t kRank = 160;           ///< For kRankChannels channels.
  static constexpr uint32_t kRankChannels = 1024;  ///< KV heads * head_dim.
  static constexpr uint32_t kOutlierChunks = 24;   ///< For kOutlierTokens tokens of budget.
  static constexpr uint32_t kOutlierTokens = 1024;
  static StatusOr<std::unique_ptr<RetrievalPolicy>> Make(const PolicyContext& context);
  static RetrievalOptions Published(uint32_t page_tokens);
  /// The rank of the document's keys: what `options` name, or the published share, at least 1.
  static uint32_t RankOf(const RetrievalOptions& options, const KvSpec& spec);

  std::string_view name() const override { return kName; }
  PageObserver* page_observer() override { return this; }
  const KeySource* key_source() const override { return this; }
  bool WantsUnits(uint32_t layer) const override { return Layout(layer).selectable_pages > 0; }
  Status OnPrefillLayer(uint32_t layer, uint32_t num_pages,
                        std::shared_ptr<const StoredDigests> digests) override;
  Status OnPageComplete(uint32_t layer, uint32_t page, const void* units) override;
  StatusOr<Selection> Select(const SelectRequest& request) override;
  void FillKeys(uint32_t layer, uint32_t head, uint32_t page,
                std::span<std::byte> keys) const override;

 private:
  struct Layer {
    uint32_t document_pages = 0;
    uint32_t num_pages = 0;
    std::vector<std::vector<float>> means;  ///< [n_kv] of [pages][chunks][d], after RoPE
    std::vector<float> cosines;  ///< [pages][n_kv]: the lowest of a key with its chunk's mean
    /// [pages][n_kv] keys [p][d] in the KV dtype; none where they are in low rank only.
    std::vector<std::vector<std::byte>> exact;
    std::optional<LowRankKeys> low_rank;  ///< The document's keys, once there is a choice.
    std::vector<std::vector<uint32_t>>
        outliers;  ///< [n_kv] pages, ascending, once there is a choice
  };
  explicit ShadowKvPolicy(const PolicyContext& context);
  /// Means of the page's chunks, and how well they represent its keys, [n_kv][p][d].
  void Summarise(std::span<const float> keys, Layer* layer) const;
  /// Puts the keys of a page, [n_kv][p][d], into Layer::exact.
  void KeepExact(std::span<const float> keys, Layer* layer) const;
  /// Exact keys of the first `pages` pages before RoPE, [tokens][n_kv][d].
  std::vector<float> Unrotated(const Layer& layer, uint32_t pages) const;
  /// At the first choice: outliers are chosen and the document's keys go to low rank.
  void Compress(const SelectRequest& request, Layer* layer);
  std::vector<float> Weights(const SelectRequest& request, const Layer& layer, uint32_t head,
                             std::span<const float> query) const;
  /// Has the angles of the first `positions` positions ready.
  void PrepareAngles(size_t positions);
  /// Turns keys, [tokens][heads][d] from position `first` on, by their positions with `sines`, or
  /// back with their negatives.
  void Rotate(std::span<float> keys, size_t first, size_t heads,
              const std::vector<float>& sines) const;

  const KvSpec spec_;
  Device* const device_;
  const uint32_t chunks_;         ///< Chunks of a page.
  const uint32_t outlier_pages_;  ///< Most outlier pages of a KV head.
  const uint32_t rank_;           ///< Rank of the document's keys.
  const RopeRotation rotation_;
  std::vector<float> cosines_, sines_;  ///< [positions][rotary_dim/2]
  std::vector<Layer> layers_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_RETRIEVAL_POLICIES_SHADOWKV_H_
