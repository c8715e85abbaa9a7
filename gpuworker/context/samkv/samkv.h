// SPDX-License-Identifier: Apache-2.0
//
// SamKV (arXiv 2508.11661): a question reads the first block and the last two of each document and
// the middle blocks that it selects (samkv_selection.h). The first pass reads the question over the
// first and last blocks, for its queries. The second reads it over all that is kept. Tokens that
// stand where documents meet are computed anew in it.
//
// Choices where the paper is silent. The tokens computed are those of first and last blocks, of
// every document but the first. Outlier tokens of selected blocks are computed, too, in the layers
// that selected them. A token whose output a later layer needs may not be selected in a layer. It
// keeps its cached key there, and is seen by itself alone (case 3). Thread-safety: pure functions.
// Errors: none; shapes are the caller's.
#ifndef QUIRE_GPUWORKER_CONTEXT_SAMKV_SAMKV_H_
#define QUIRE_GPUWORKER_CONTEXT_SAMKV_SAMKV_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/page/rope_rotation.h"
#include "gpuworker/context/reuse_plan.h"
#include "gpuworker/context/samkv/samkv_selection.h"

namespace quire::worker {

/// Collects the mean query of each layer, without rotation.
class QueryMeans {
 public:
  QueryMeans(const SamKvShape& shape, const RopeSpec& rope)
      : shape_(shape), rotation_(rope), interleaved_(rope.interleaved), sums_(shape.num_layers) {}

  /// Adds rows at `positions`, [rows][n_q][d], rotated.
  void Add(uint32_t layer, std::span<const uint64_t> positions, std::span<const float> queries);
  /// The means, [num_layers][n_q][d].
  std::vector<std::vector<float>> Means() const;

 private:
  const SamKvShape shape_;
  const RopeRotation rotation_;
  const bool interleaved_;
  std::vector<std::vector<double>> sums_;
  uint64_t rows_ = 0;  ///< Rows of one layer.
};

/// The first pass. `means`, which outlives the plan, gets the question's queries.
ReusePlan SamKvQuestion(const PromptLayout& layout, std::span<const BlockSplit> splits,
                        QueryMeans* means);

/// Which tokens of documents are computed, of those that are read.
enum class SamKvRows : uint8_t {
  kPublished,  ///< First and last blocks of all documents but the first, and outlier tokens.
  /// Blocks that the question selected in some layer, and the first kHeadTokens of a document; of
  /// all documents but the first. Every layer reads them. Not published.
  kAttended,
  kNothing,     ///< None.
  kEverything,  ///< All, of all documents but the first.
};

/// Tokens of a document that EPIC computes for its beginning alone.
inline constexpr uint64_t kHeadTokens = 16;

struct SamKvPlanOptions {
  RowUpdate update = RowUpdate::kFusion;
  SamKvRows rows = SamKvRows::kPublished;
};

/// The second pass, over `selected` blocks.
ReusePlan SamKv(const PromptLayout& layout, std::span<const DocumentStatistics* const> documents,
                const SelectedBlocks& selected, const SamKvPlanOptions& options = {});

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_CONTEXT_SAMKV_SAMKV_H_
