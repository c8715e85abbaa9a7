// SPDX-License-Identifier: Apache-2.0
//
// RetrievalOptions: which policy a sequence uses and how it divides its budget. Plain values.
#ifndef QUIRE_GPUWORKER_RETRIEVAL_OPTIONS_H_
#define QUIRE_GPUWORKER_RETRIEVAL_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/api/digest.h"
#include "kernels/api/pool.h"
#include "quire/clock.h"
#include "quire/kv_spec.h"
#include "quire/layout.h"
#include "quire/status.h"
#include "quire/unit_codec.h"

namespace quire::worker {

/// Where pages are scored; the kernels and the result are the same.
enum class SelectionSide : uint8_t {
  kWorker,  ///< Digests are fetched once and stay on the device.
  kServer,  ///< The query travels with the recall.
};

/// How recalled units go into their slots.
enum class RecallLayout : uint8_t {
  kUnits,  ///< A unit is one transfer; the device spreads it over its slot.
  /// One transfer for each token's keys and values of a head. Needed where the host keeps pages in
  /// the device's order (ArkVale). For comparison: units come as they always do, and the bytes are
  /// the same.
  kRows,
};

struct RetrievalOptions {
  std::string policy = "quest";
  /// Tokens resident per KV head of a compressed layer: sinks, window and selected pages together.
  uint32_t budget_tokens = 2048;
  /// Tokens of selected pages that are attended to. Sinks and window leave more slots, which keep
  /// pages selected before. 0: as many as they leave.
  uint32_t select_tokens = 0;
  uint32_t sink_tokens = 128;  ///< The first tokens, always resident.
  uint32_t window_tokens =
      128;  ///< The most recent tokens, the open page counted; two pages or more.
  /// Layers that keep every page on the device.
  std::vector<uint32_t> uncompressed_layers = {0};
  kernels::Pooling pooling = kernels::Pooling::kAvgSM;
  float score_scale = 1.0f;  ///< Multiplies scores before pooling: 1, or 1/sqrt(d).
  kernels::DigestKind digest = kernels::DigestKind::kMinMax;  ///< Kind that pages are scored by.
  SelectionSide side = SelectionSide::kWorker;
  /// tau: a KV head whose queries' mean cosine with those that selected what it holds is below it
  /// is recalled for before attention (FreeKV). Above 1 always, below -1 never.
  float correction_threshold = 0.8f;
  /// Corrects `retrieval_heads` alone (FreeKV), which must be known. The others speculate whenever
  /// they hold a selection.
  bool correct_retrieval_heads = false;
  /// Heads that look back for what they have seen, as layer * KV heads + head. They keep every page
  /// (RazorAttention), or are corrected (FreeKV). Empty: those that the engine finds in the model
  /// (engine/ingest/retrieval_heads.h). Without an engine, RazorAttention takes 15 % evenly spread.
  std::vector<uint32_t> retrieval_heads = {};
  /// Rank of the document's keys (ShadowKV), at most KV heads * head_dim. 0 takes the published
  /// share of that width (policies/shadowkv.h).
  uint32_t key_rank = 0;
  /// Tokens whose weights decide a selection of SpeContext, the present one counted. More of them
  /// keep pages longer, and fewer move (policies/specontext.h). AsPublished has 1.
  uint32_t selection_memory = 4;
  /// How long the attention of a layer waits for pages that only correct a selection that it could
  /// attend to instead (FreeKV). A head that went on without them waits for as long as it takes at
  /// the next token. 0: always as long as it takes.
  Duration recall_deadline = {};
  /// Units of a recall that are put into slots at a time. 0: all of one KV head.
  uint32_t units_per_buffer = 0;
  /// How many such groups are in work at a time: with 2, one comes in while another is converted.
  /// A device that needs staging buffers (cache/staging_buffers.h) gets as many.
  uint32_t recall_buffers = 2;
  RecallLayout recall_layout = RecallLayout::kUnits;
};

/// Largest RetrievalOptions::selection_memory.
inline constexpr uint32_t kMostSelectionMemory = 64;

/// How a budget is divided, in tokens, and where there is none.
struct BudgetDivision {
  uint32_t sinks = 0;
  uint32_t window = 0;    ///< Made two pages when it is less.
  uint32_t selected = 0;  ///< Attended to besides those. 0: what they leave of the total.
  uint32_t total = 0;     ///< With the slots of pages that are not selected. 0: the sum.
  std::vector<uint32_t> uncompressed_layers = {};
};
/// Options for `policy` with those parts, each in whole pages of `page_tokens`, rounded up.
RetrievalOptions Divide(std::string policy, uint32_t page_tokens, const BudgetDivision& division);

/// Checks `options` for pages of `spec`: all tokens are multiples of p, the window is at least two
/// pages, the budget holds sinks, window and what is selected, layers exist. INVALID_ARGUMENT
/// names the option, its value and what would be accepted.
Status Validate(const RetrievalOptions& options, const KvSpec& spec);

/// Codecs of units that a recall takes in as they are stored: every one, where whole units go into
/// their slots by a kernel that decodes them. None for rows, and where a policy has the keys.
CodecSet RecalledCodecs(RecallLayout layout, UnitPart part);

/// For policies that the server cannot score for. INVALID_ARGUMENT for selection at the server.
Status RequireWorkerSide(const RetrievalOptions& options);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_RETRIEVAL_OPTIONS_H_
