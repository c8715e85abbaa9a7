// SPDX-License-Identifier: Apache-2.0
//
// DocumentVariants: documents of one prompt, and how they were computed behind others before
// (Cache-Craft, cachecraft.h). It chooses how each document is read. After the answer it keeps
// documents that were computed with the keys and values of full prefill.
//
// A variant is a piece of a stored chain: the tokens of the documents before it and its own. A key
// says what its bytes are, so results with some tokens fixed are not kept. The record of a variant
// lies with its document, as the extra kVariantsExtra, and goes with it (docs/design/0047).
//
// Ownership: what `parts` names outlives it. Thread-safety: none.
// Errors: none. A variant that cannot be read counts as absent. One that cannot be kept is left
// out.
#ifndef QUIRE_GPUWORKER_ENGINE_REUSE_DOCUMENT_VARIANTS_H_
#define QUIRE_GPUWORKER_ENGINE_REUSE_DOCUMENT_VARIANTS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "gpuworker/context/cachecraft/cachecraft.h"
#include "gpuworker/context/cachecraft/chunk_attention.h"
#include "gpuworker/context/prompt_layout.h"
#include "gpuworker/engine/parts.h"
#include "gpuworker/engine/reuse/assembled_prompt.h"
#include "quire/contexts.h"
#include "quire/documents.h"
#include "quire/key.h"

namespace quire::worker {

class DocumentVariants {
 public:
  /// `contexts` are the chains of the documents alone. `prompt` has the tokens of `layout`. Nothing
  /// is looked up once `keep_going`, which may be empty, is false.
  DocumentVariants(const EngineParts& parts, std::span<const DocumentName> names,
                   std::span<const ContextRef> contexts, const PromptLayout& layout,
                   std::span<const TokenId> prompt, std::function<bool()> keep_going);

  /// Chooses how each document is read. `documents` and `contexts` become those to read.
  ReusePlan Choose(const CacheCraftOptions& options, std::vector<AssembledDocument>* documents,
                   std::vector<ContextRef>* contexts);
  /// The same with every document as it was stored alone.
  ReusePlan ChooseAlone(const CacheCraftOptions& options);
  /// Says that full prefill computes every document.
  void ComputeAll();
  /// Has `plan` measure attention, if there is a document to keep.
  void Measure(ReusePlan* plan);
  /// Called after the measured plan ran. Returns how many documents there are to keep.
  uint32_t EndMeasuring();
  /// Keeps what was computed whole, at most `most` variants of each document, or kMostVariants. The
  /// oldest leave. Called after EndMeasuring, with the prompt that ran. Returns how many were kept.
  uint32_t Keep(const AssembledPrompt& prompt, uint32_t most);

  /// Documents that are read as they were computed behind others.
  uint32_t used() const { return used_; }

 private:
  /// How a variant can be read in this prompt.
  struct Found {
    SegmentKey chain_tip;
    AssembledDocument read;
    bool same_prefix = false;  ///< All tokens before it are the same.
  };
  struct Chosen {
    std::vector<uint64_t> fixed;  ///< Tokens to compute.
    std::optional<Found> found;   ///< Unset for the document alone.
  };
  std::span<const SegmentKey> PrefixOf(size_t document) const {
    return std::span(tips_).first(document);
  }
  bool IsWanted() const { return !keep_going_ || keep_going_(); }
  std::span<const TokenId> TokensOf(size_t document) const;
  void LoadVariants();
  /// Nullopt when the chain is gone, of another model, or of other tokens.
  std::optional<Found> Find(size_t document, const ChunkVariant& variant) const;
  /// The best variant that can be read. Forgets those that cannot.
  Chosen ChooseFor(size_t document, const CacheCraftOptions& options);
  bool IsStored(const ChunkVariant& variant) const;
  /// True when a variant behind the same documents is there.
  bool HasSame(size_t document) const;
  /// Adds the variant of a document, whose chain has `segments`. Returns whether it was stored.
  bool KeepOne(size_t document, std::span<const SegmentKey> segments, uint32_t most);

  const EngineParts parts_;
  const std::vector<DocumentName> names_;
  const PromptLayout layout_;
  const std::vector<TokenId> tokens_;  ///< Tokens of all documents.
  const std::function<bool()> keep_going_;
  std::vector<SegmentKey> tips_;                     ///< One for each document.
  std::vector<std::vector<ChunkVariant>> variants_;  ///< Lists of each document, oldest first.
  /// Documents that are computed whole behind exact ones, ascending.
  std::vector<size_t> to_keep_;
  std::vector<ChunkAttention> attention_;  ///< Empty, or one for each document.
  uint32_t used_ = 0;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_ENGINE_REUSE_DOCUMENT_VARIANTS_H_
