// SPDX-License-Identifier: Apache-2.0
//
// ReuseRun: one question over several stored documents that were prefilled alone. It prefills by a
// method of reuse, and generates over what the prefill left.
//
//   QUIRE_ASSIGN_OR_RETURN(auto run, ReuseRun::Open(parts, {{.name = "a"}, {.name = "b"}},
//   question,
//                                                   {.method = ReuseMethod::kCacheBlend}));
//   QUIRE_ASSIGN_OR_RETURN(Generation answer, run->Generate({.max_new_tokens = 16}));
//
// Ownership: what `parts` names outlives it. Thread-safety: none.
#ifndef QUIRE_GPUWORKER_ENGINE_REUSE_REUSE_RUN_H_
#define QUIRE_GPUWORKER_ENGINE_REUSE_REUSE_RUN_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "gpuworker/context/cacheblend/cacheblend.h"
#include "gpuworker/context/cachecraft/cachecraft.h"
#include "gpuworker/context/hops/hops.h"
#include "gpuworker/context/infllm.h"
#include "gpuworker/context/prompt_layout.h"
#include "gpuworker/context/samkv/samkv.h"
#include "gpuworker/context/samkv/samkv_selection.h"
#include "gpuworker/engine/parts.h"
#include "gpuworker/engine/reuse/assembled_prompt.h"
#include "gpuworker/engine/reuse/document_lookup.h"
#include "gpuworker/engine/reuse/document_reader.h"
#include "gpuworker/engine/reuse/document_variants.h"
#include "gpuworker/engine/sequence.h"
#include "gpuworker/retrieval/options.h"
#include "quire/documents.h"
#include "quire/key.h"
#include "quire/status.h"

namespace quire::worker {

/// How documents' caches are reused.
enum class ReuseMethod : uint8_t {
  kFull,        ///< Not at all: every token is computed.
  kReuse,       ///< As they are, moved to their places; the question is computed.
  kIsolated,    ///< As they are, and the question was computed alone, but for its last token.
  kEpic,        ///< The first tokens of each document but the first are computed.
  kCacheBlend,  ///< The tokens whose values differ most are computed.
  kSamKv,       ///< Selected blocks are read, and the tokens where documents meet are computed.
  kInfLlm,      ///< Blocks that each document selects are read; the question is computed.
  kCacheCraft,  ///< As they were computed behind others; the most affected tokens are computed.
  kHops,        ///< Pages that rows find are read; those that they attend to are computed.
};

/// "full", "reuse_strict", "reuse_isolated", "epic", "cacheblend", "samkv", "multi_infllm",
/// "cachecraft", "hops".
std::string_view Name(ReuseMethod method);
/// The names of all methods, full prefill first.
std::vector<std::string_view> ReuseMethodNames();
/// INVALID_ARGUMENT naming the known methods.
StatusOr<ReuseMethod> ParseReuseMethod(std::string_view name);

/// True where what is read or computed of the documents depends on the question.
bool DependsOnQuestion(ReuseMethod method);

/// Positions of documents that methods read parts of.
enum class PromptPositions : uint8_t {
  kGapped,   ///< As in full prefill. Compact where the prompt is longer than the model's context.
  kCompact,  ///< Without those of tokens that no layer reads.
};

struct ReuseOptions {
  ReuseMethod method = ReuseMethod::kCacheBlend;
  CacheBlendOptions cacheblend;
  /// CacheBlend's ratio grows to what loading leaves time for, or everything is computed where that
  /// is faster (loading_controller.h). The engine's measurements so far decide.
  bool balances_loading = false;
  uint64_t epic_tokens = 16;  ///< The k of LegoLink-k.
  SamKvOptions selection;     ///< SamKV's choice of blocks.
  SamKvPlanOptions samkv;
  InfLlmOptions infllm;
  CacheCraftOptions cachecraft;
  /// Most variants of a document that are kept (document_variants.h), after questions by full
  /// prefill and by Cache-Craft; at most kMostVariants. 0: none is kept.
  uint32_t variants = 0;
  HopOptions hops;
  PromptPositions positions = PromptPositions::kGapped;
  /// Documents that begin with it have a beginning token (PromptLayout).
  std::optional<TokenId> bos;
  uint32_t max_new_tokens = 64;  ///< Room that is made for the answer.
  /// Policy by which generated tokens attend; unset: to all that the prefill left.
  std::optional<RetrievalOptions> retrieval = {};
  bool skip_missing = false;  ///< Goes on without documents that are not stored, if one is.
  /// Asked before each layer; false ends the prefill with CANCELLED. None when empty.
  std::function<bool()> keep_going = {};
  /// Keeps the logits of every computed row of documents, for comparisons.
  bool row_logits = false;
};

/// Logits of rows of documents.
struct RowLogits {
  std::vector<uint64_t> positions;  ///< In the prompt, ascending.
  std::vector<float> logits;        ///< [positions][vocab_size]
};

struct ReuseStats {
  uint64_t prompt_tokens = 0;    ///< Tokens of documents and question.
  uint64_t question_tokens = 0;  ///< Tokens of the question.
  bool compact = false;          ///< Positions are those of a compact prompt.
  /// Rows of documents whose keys were computed, of all layers and passes, over those there are.
  double recompute_ratio = 0;
  /// Tokens of documents that attention reads, a mean over layers, over those there are.
  double sequence_ratio = 0;
  /// CacheBlend: the ratio of its options, or the balancing one.
  double chosen_ratio = 0;
  bool chose_full_prefill = false;  ///< CacheBlend: loading would have taken longer.
  uint64_t bytes_read = 0;          ///< Bytes of units as they came, and of digests and scores.
  uint64_t bytes_whole = 0;         ///< Bytes of elements of all units of the documents.
  uint64_t requests = 0;            ///< Requests for units, digests and scores.
  /// Documents whose statistics had to be computed for the method.
  uint32_t statistics_computed = 0;
  uint32_t statistics_stored = 0;  ///< Computed statistics that the next question finds.
  uint32_t variants_used = 0;      ///< Documents read as they were computed behind others.
  /// Documents to keep as they were computed; after KeepVariants, those that were kept.
  uint32_t variants_kept = 0;
  double seconds_prefill = 0;
  double attended_ratio = 1;  ///< Cells that the last generated token attended to, over all.
  std::vector<DocumentName> missing;  ///< Skipped, since they are not stored.
};

class ReuseRun {
 public:
  /// Prefills, and once more when its server is lost meanwhile: another node may have the
  /// documents. Errors:
  /// - INVALID_ARGUMENT: no document or question, a document of another model or KvSpec, which it
  ///   names, a layer that the model lacks, and those of LayOutPrompt.
  /// - NOT_FOUND: names every document that is not stored.
  /// - RESOURCE_EXHAUSTED: the bounds that hops would read are larger than HopOptions allow.
  /// - CANCELLED: ReuseOptions::keep_going said so.
  static StatusOr<std::unique_ptr<ReuseRun>> Open(const EngineParts& parts,
                                                  std::span<const DocumentName> documents,
                                                  std::span<const TokenId> question,
                                                  const ReuseOptions& options);

  /// Asks another question over what the first one computed of the documents, and reads nothing.
  /// The logits and Generate are about it, and retrieval begins anew; the stats stay.
  /// FAILED_PRECONDITION for a method whose documents depend on the question (DependsOnQuestion),
  /// and INVALID_ARGUMENT as for Open.
  Status AskAgain(std::span<const TokenId> question);

  /// Generates, up to the room that was made. Called once for each question.
  StatusOr<Generation> Generate(const GenerateParams& params);

  /// Keeps variants, unless the question was cancelled. Called once, after the caller of the
  /// question has the answer. Updates ReuseStats::variants_kept, and returns it.
  uint32_t KeepVariants();

  /// Logits after the question, [vocab_size].
  std::span<const float> logits() const { return logits_; }
  /// Rows of documents that the last layer computed; empty without ReuseOptions::row_logits.
  const RowLogits& row_logits() const { return row_logits_; }
  const ReuseStats& stats() const { return stats_; }

 private:
  explicit ReuseRun(const EngineParts& parts) : parts_(parts) {}
  /// Null without ReuseOptions::retrieval.
  StatusOr<std::unique_ptr<PromptRetrieval>> NewRetrieval() const;
  Status Find(std::span<const DocumentName> documents, const ReuseOptions& options);
  void Add(FoundDocument found, const ReuseOptions& options);
  /// CANCELLED once ReuseOptions::keep_going says so.
  Status CheckWanted() const;
  /// Tokens of the documents in the prompt, and the question.
  std::vector<TokenId> PromptOf(std::span<const TokenId> question) const;
  /// Makes the layout, and says whether the prompt is compact.
  Status LayOut(uint64_t question_tokens, const ReuseOptions& options);
  Status Prefill(std::span<const TokenId> question, const ReuseOptions& options);
  /// Runs `plan`, and keeps the logits of all rows that its last layer computes.
  StatusOr<SparsePrefillStats> RunForRows(ReusePlan& plan, std::span<const TokenId> prompt);
  StatusOr<ReusePlan> MakePlan(std::span<const TokenId> prompt, const ReuseOptions& options);
  /// Runs all passes but the last one.
  StatusOr<ReusePlan> PlanHops(std::span<const TokenId> prompt, const ReuseOptions& options);
  ReusePlan PlanCacheBlend(const ReuseOptions& options);
  StatusOr<ReusePlan> PlanCacheCraft(const ReuseOptions& options);
  /// Opens the variants of the documents of `prompt`, for methods that use or keep any.
  void OpenVariants(std::span<const TokenId> prompt, const ReuseOptions& options);
  /// SamKV and InfLLM: reads the question over the documents' first and last blocks, and selects.
  StatusOr<ReusePlan> SelectAndPlan(std::span<const TokenId> prompt, const ReuseOptions& options);
  /// Scores of the documents' blocks, in one request for all of them and all layers.
  StatusOr<DocumentScores> ScoreBlocks(std::span<const DocumentStatistics* const> documents,
                                       std::span<const std::vector<float>> question,
                                       const SamKvShape& shape);
  /// Computes statistics that are not stored with the document, and stores them. A server that does
  /// not take them costs the next question the same again.
  Status ComputeStatistics(size_t document);
  /// A session over the documents, for the first plan that reads any.
  Status OpenReader();
  /// Runs a plan over a prompt that is assembled for it, compact where that is so.
  StatusOr<SparsePrefillStats> Run(ReusePlan& plan, std::span<const TokenId> prompt, float* logits);
  /// Runs `rows` of a plan that chooses its cells.
  StatusOr<SparsePrefillStats> RunChosen(ReusePlan& plan, std::span<const TokenId> rows,
                                         float* logits);
  /// Renumbers the plan. Returns the pieces of documents that it reads.
  StatusOr<std::vector<AssembledDocument>> MakeCompact(ReusePlan& plan);
  void Measure(const ReusePlan& plan, const SparsePrefillStats& computed);
  /// Keeps what the run took, for later choices.
  void NoteCosts(const ReusePlan& plan, const SparsePrefillStats& computed, double seconds) const;
  /// Costs of a layer of the whole prompt, as far as they were measured.
  LayerCosts CostsOfLayer() const;

  const EngineParts parts_;
  ReuseMethod method_ = ReuseMethod::kFull;
  std::function<bool()> keep_going_;
  std::optional<RetrievalOptions> retrieval_;
  std::vector<DocumentName> names_;
  std::vector<AssembledDocument> documents_;
  std::vector<StoredSource> sources_;
  std::vector<std::vector<TokenId>> tokens_;  ///< One list for each document.
  /// One entry for each document; of methods that select, complete once they have been computed.
  std::vector<std::optional<DocumentStatistics>> statistics_;
  bool scores_content_ = false;  ///< The server is asked for scores of pages.
  PromptLayout layout_;
  std::vector<ContextRef> contexts_;        ///< Contexts of the documents.
  std::unique_ptr<DocumentReader> reader_;  ///< While the prefill reads.
  std::optional<DocumentVariants> variants_;
  uint32_t most_variants_ = 0;  ///< ReuseOptions::variants
  std::unique_ptr<Hops> hops_;  ///< Outlives its plans.
  uint64_t rows_before_ = 0;    ///< Rows of documents that earlier passes computed, of all layers.
  std::unique_ptr<AssembledPrompt> prompt_;
  std::vector<float> logits_;
  RowLogits row_logits_;
  uint64_t end_ = 0;  ///< Position behind the prompt.
  uint32_t room_ = 0;
  ReuseStats stats_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_ENGINE_REUSE_REUSE_RUN_H_
