// SPDX-License-Identifier: Apache-2.0
//
// Cache-Craft: a document is kept several times, as it was computed behind other documents. Such
// variants are chosen by how little has to be fixed behind the documents of a new prompt, and the
// tokens that attended most to other documents are computed anew.
//
//   impact      CCI = 1 / (1 + exp(-a / b)), with a and b the mean attention of a token of the
//               document to a token of other documents, and of its own
//   overlap     beta: share of its attention to earlier documents that stand before it again
//   disorder    gamma: share of pairs of those that have changed places (Kendall's tau)
//   overhead    CFO = alpha * CCI * (1 - beta * (1 - gamma)), the share of tokens to compute
//
// Choices that the paper leaves open:
// - A document that was stored alone has no prefix. A beta of 1 would say that it needs no fix, in
//   whatever prompt. It counts as 0 here, and CCI as the least of the document's variants. A
//   document without variants has no CCI. It counts as 1, so all of it is computed, and may be
//   kept.
// - Its first tokens are computed then, as EPIC does.
// - The first document of a prompt has nothing before it, and is read as it is stored.
// Thread-safety: pure functions. Units: tokens.
#ifndef QUIRE_GPUWORKER_CONTEXT_CACHECRAFT_CACHECRAFT_H_
#define QUIRE_GPUWORKER_CONTEXT_CACHECRAFT_CACHECRAFT_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "gpuworker/context/cachecraft/chunk_attention.h"
#include "gpuworker/context/reuse_plan.h"
#include "quire/key.h"

namespace quire::worker {

struct CacheCraftOptions {
  double alpha = 1;  ///< Weight of the overhead, 0 or more.
};

/// A document as it was computed behind others. Its keys and values are tokens of a stored chain
/// that begins with those others.
struct ChunkVariant {
  SegmentKey chain_tip;              ///< Ends with the segment of its last token.
  std::vector<SegmentKey> segments;  ///< Segments of the chain that have tokens of it.
  uint64_t first_token = 0;          ///< Its first token in the chain: the position of its keys.
  uint64_t skipped = 0;              ///< Tokens that were left out at its beginning.
  std::vector<SegmentKey> prefix;    ///< Chain tips of the documents before it, in order.
  std::vector<double> inter;         ///< Mass of its attention on each of those.
  double impact = 1;                 ///< CCI
  std::vector<float> tokens;         ///< Mass of each of its tokens on all of those.
};

/// CCI; 1 when `intra` is 0.
double ContextImpact(double inter, double intra);
/// CCI of what was measured of document `index` of a prompt.
double ContextImpact(const ChunkAttention& chunk, const PromptLayout& layout, size_t index);
/// beta. 1 when nothing before it was attended to.
double PrefixOverlap(const ChunkVariant& variant, std::span<const SegmentKey> prefix);
/// gamma, over the documents of both; 0 for fewer than two. Documents named again do not count.
double PrefixDisorder(std::span<const SegmentKey> before, std::span<const SegmentKey> now);
/// CFO, in [0, 1].
double FixOverhead(double impact, double overlap, double disorder, double alpha);

/// One way to read a document of a prompt.
struct ChunkChoice {
  std::optional<size_t> variant;  ///< Index of the variant; the document alone when unset.
  double overhead = 0;
};
/// All ways, the least overhead first. Ties go to a variant behind the same documents, then to the
/// document alone. `prefix` names the documents before it, at least one.
std::vector<ChunkChoice> RankVariants(std::span<const ChunkVariant> variants,
                                      std::span<const SegmentKey> prefix,
                                      const CacheCraftOptions& options);
/// Tokens of a document of `count` that a choice computes, ascending. `variant` is null for the
/// document alone.
std::vector<uint64_t> TokensToFix(const ChunkVariant* variant, double overhead, uint64_t count);

/// Computes `fixed[i]` of each document, and the question.
ReusePlan CacheCraft(const PromptLayout& layout, uint32_t num_layers,
                     std::span<const std::vector<uint64_t>> fixed);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_CONTEXT_CACHECRAFT_CACHECRAFT_H_
