// SPDX-License-Identifier: Apache-2.0
//
// Sparse prefill: the one computation behind every way to reuse several documents' caches. Some
// rows of a prompt are computed, layer by layer, over keys and values of which most come from
// caches. Which rows is a plan (RowPlan); CacheBlend (arXiv 2405.16444), EPIC (arXiv 2410.15332)
// and SamKV (arXiv 2508.11661) are plans. Where the cached rows come from is a LayerViews.
// Units: positions in tokens of the whole prompt; rows are indices into SparsePrompt.
#ifndef QUIRE_GPUWORKER_MODEL_SPARSE_SPARSE_PREFILL_H_
#define QUIRE_GPUWORKER_MODEL_SPARSE_SPARSE_PREFILL_H_

#include <cstdint>
#include <span>
#include <vector>

#include "gpuworker/model/layer_view.h"
#include "quire/key.h"
#include "quire/status.h"

namespace quire::worker {

/// The tokens that may be computed: at least one, positions ascending, gaps allowed.
struct SparsePrompt {
  std::span<const TokenId> tokens;
  std::span<const uint64_t> positions;  ///< As many as tokens.
};

/// The rows of one layer, both ascending.
struct LayerRows {
  /// Rows whose keys and values are computed; the others of the view stay as cached.
  std::vector<uint32_t> fresh;
  /// Rows whose output is computed. In the last layer, the rows whose logits are wanted.
  std::vector<uint32_t> outputs;
};

/// Tokens at positions [first, end).
struct PositionSpan {
  uint64_t first = 0;
  uint64_t end = 0;
};

/// Decides which rows are computed. Thread-safety: none. Policy without I/O.
class RowPlan {
 public:
  virtual ~RowPlan() = default;
  /// The rows of `layer`, asked for once for each layer in order. After layer 0 both lists are
  /// subsets of the outputs of the layer before.
  virtual LayerRows Rows(uint32_t layer) = 0;
  /// True when the plan chooses the outputs of `layer` by how far fresh values are from cached
  /// ones.
  virtual bool ChoosesIn(uint32_t layer) const {
    (void)layer;
    return false;
  }
  /// The outputs of `layer`, ascending, instead of those of Rows. `deviations` has one entry for
  /// each fresh row: the squared L2 distance of its values, over KV heads and channels; infinite
  /// where nothing is cached.
  virtual std::vector<uint32_t> Choose(uint32_t layer, std::span<const double> deviations) {
    (void)layer, (void)deviations;
    return {};
  }
  /// Rows whose queries the plan reads before the view of `layer` is asked for, ascending: it
  /// chooses what the layer reads by them. Outputs of the layer before.
  virtual std::vector<uint32_t> Asks(uint32_t layer) {
    (void)layer;
    return {};
  }
  /// True when the plan reads the queries of the outputs of `layer`.
  virtual bool ReadsQueries(uint32_t layer) const {
    (void)layer;
    return false;
  }
  /// Rotated queries of some outputs, or of rows that ask, [positions][n_q][d]. Called until all
  /// were told.
  virtual void ReadQueries(uint32_t layer, std::span<const uint64_t> positions,
                           std::span<const float> queries) {
    (void)layer, (void)positions, (void)queries;
  }
  /// Spans whose shares of the attention of outputs the plan reads; none for most plans.
  virtual std::span<const PositionSpan> MeasuredSpans() const { return {}; }
  /// Shares of some outputs, [positions][spans], means over query heads. Called until all outputs
  /// were told.
  virtual void ReadShares(uint32_t layer, std::span<const uint64_t> positions,
                          std::span<const float> shares) {
    (void)layer, (void)positions, (void)shares;
  }
};

/// How a fresh row meets the cached one.
enum class RowUpdate : uint8_t {
  kOverwrite,
  /// SamKV, Eq. 4: theta * fresh + (1 - theta) * cached, theta the cosine of the two clamped to
  /// [0, 1]. One theta for each token and KV head, for keys and values apart.
  kFusion,
};

/// Computed rows, in rows times layers.
struct SparsePrefillStats {
  uint64_t fresh_rows = 0;
  uint64_t output_rows = 0;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_MODEL_SPARSE_SPARSE_PREFILL_H_
