// SPDX-License-Identifier: Apache-2.0
//
// PagedRun: the state of a sequence that depends on the server. It has an open context that
// continues the document, a seat in a session over it, and cache, policy and recalls. When the
// server loses one of these, the whole run is thrown away and another one opened.
//
// A run can be suspended: its slots and its seat are given back, while its pages stay in the open
// context. A resumed run continues bit for bit where the store keeps pages as they are. A lossy
// codec rounds the pages of the window once more.
//
// A prompt may run densely. Every page of every layer, a document's too, then stays on the device,
// and many tokens attend to all of them at a time. Pages also go to the open context. WithinBudget
// then keeps of it what the policy keeps.
//
// Thread-safety: none. Ownership: what it is given outlives it.
#ifndef QUIRE_GPUWORKER_ENGINE_PAGED_RUN_H_
#define QUIRE_GPUWORKER_ENGINE_PAGED_RUN_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "gpuworker/cache/budget_cache.h"
#include "gpuworker/engine/cache_backend.h"
#include "gpuworker/engine/document_shares.h"
#include "gpuworker/engine/offload/offloader.h"
#include "gpuworker/engine/owned_context.h"
#include "gpuworker/engine/parts.h"
#include "gpuworker/engine/sequence.h"
#include "gpuworker/engine/session_source.h"
#include "gpuworker/recall/recall_pipeline.h"
#include "gpuworker/retrieval/policy.h"
#include "quire/client.h"
#include "quire/clock.h"
#include "quire/key.h"
#include "quire/status.h"

namespace quire::worker {

/// Counts that runs add to; survive them. Bytes are payload bytes.
struct RunStats {
  uint64_t bytes_at_open = 0;  ///< And of layers that came back to the device.
  uint64_t bytes_digests = 0;
  uint64_t bytes_appended = 0;
  Duration offload_waits = {};  ///< For complete pages to be with the server.
  RecallStats recall;
};

/// Adds what the runs of a sequence counted to its statistics.
void AddRunStats(const RunStats& run, const RetrievalOptions& retrieval, const KvSpec& spec,
                 SequenceStats* stats);

/// A run without slots. It keeps little: the policy with its digests, and one page a layer.
struct SuspendedRun {
  std::unique_ptr<RetrievalPolicy> policy;
  std::unique_ptr<RetrievalPolicy> after_prompt;  ///< PagedRun::after_prompt_
  std::unique_ptr<OwnedContext> context;
  HostPages host_pages;
  std::optional<DocumentPages> document;
  uint64_t num_tokens = 0;
  std::vector<TokenId> unflushed;    ///< Token ids of the open page.
  std::vector<std::byte> open_page;  ///< Its units, [num_layers][n_kv]; none when it is empty.
  std::vector<RecallPipeline::LaneState> lanes;  ///< [num_layers]
};

class PagedRun {
 public:
  /// Opens over `document` (null: over nothing). `retrieval`, `sessions` and `stats` outlive the
  /// run.
  static StatusOr<std::unique_ptr<PagedRun>> Open(const EngineParts& parts,
                                                  const RetrievalOptions& retrieval,
                                                  const Document* document, SessionSource* sessions,
                                                  RunStats* stats);
  /// True if a prompt of `tokens` runs densely: `policy` keeps less than everything, and the prompt
  /// is longer than a page, or over a document as long as EngineParts::question_chunk_tokens.
  static bool MayBeDense(const EngineParts& parts, const RetrievalPolicy& policy, bool has_document,
                         uint64_t tokens);
  /// As Open, for a prompt that attends densely.
  static StatusOr<std::unique_ptr<PagedRun>> OpenDense(const EngineParts& parts,
                                                       const RetrievalOptions& retrieval,
                                                       const Document* document, RunStats* stats);
  /// Turns a run of a policy into a dense one, which reads the pages that it lacks. On an error
  /// nothing is left of it.
  static StatusOr<std::unique_ptr<PagedRun>> Densely(std::unique_ptr<PagedRun> run);
  /// Turns a dense run into a run of its policy once the prompt has run, with the policy's slots
  /// and their pages. On an error nothing is left of it.
  static StatusOr<std::unique_ptr<PagedRun>> WithinBudget(std::unique_ptr<PagedRun> dense,
                                                          SessionSource* sessions);
  /// Suspends `run`, once recalls in flight have arrived and the server has its complete pages.
  /// Moves its pages to `cache`, unless that is null.
  static StatusOr<SuspendedRun> Suspend(std::unique_ptr<PagedRun> run,
                                        std::unique_ptr<BudgetCache>* cache = nullptr);
  /// Goes on from `suspended`, with the same options.
  static StatusOr<std::unique_ptr<PagedRun>> Resume(const EngineParts& parts,
                                                    const RetrievalOptions& retrieval,
                                                    SuspendedRun suspended, SessionSource* sessions,
                                                    RunStats* stats);
  /// Leaves the session and drops the context, as far as the server answers. Waits for the pages
  /// that it completed where others may find them, otherwise only for those that are on their way.
  ~PagedRun();
  PagedRun(const PagedRun&) = delete;
  PagedRun& operator=(const PagedRun&) = delete;

  uint64_t num_tokens() const { return cache_->table(0).num_tokens(); }
  /// True after OpenDense and Densely.
  bool is_dense() const { return after_prompt_ != nullptr; }
  /// Tokens that one Forward may have.
  uint32_t max_step_tokens() const {
    return std::min(CacheBackend::MaxStepTokens(*cache_), policy_->most_pass_tokens());
  }
  /// Pages of each layer, and those attended to in the last step.
  const BudgetCache& cache() const { return *cache_; }
  /// Tokens attended to in the last step, a mean over layers and KV heads.
  double ResidentTokens() const;

  /// Tells the policies of the tokens of a pass. For a pass over several sequences; Forward does
  /// it itself.
  void BeginStep(std::span<const TokenId> tokens);
  /// Runs `tokens` after those that it has (Decoder::Forward); the pages they complete are
  /// offloaded beside what follows. After an error, which may be that of a page that an earlier
  /// call completed, the run is good for nothing.
  [[nodiscard]] Status Forward(std::span<const TokenId> tokens, Decoder::Logits what,
                               float* logits);
  /// For a pass over several sequences: attention of this one. Call BeginStep with its tokens
  /// before the pass, and OnStepDone after it.
  CacheBackend& backend() { return *backend_; }
  [[nodiscard]] Status OnStepDone(std::span<const TokenId> tokens);

  /// Between two steps: makes layers whole, or takes them off the device, as
  /// EngineParts::slot_memory says. After an error the run is good for nothing.
  [[nodiscard]] Status PlaceLayers();

  /// Waits for recalls in flight, so that the run can end without disturbing sequences that share
  /// its messages.
  void AwaitInFlight();
  /// The server has lost the session, or cannot be reached.
  void Lose();

 private:
  PagedRun(const EngineParts& parts, const RetrievalOptions& retrieval, RunStats* stats)
      : parts_(parts), retrieval_(retrieval), stats_(stats) {}
  /// The policies of a dense run.
  Status AttendDensely();
  Status MakeCache();
  /// True if `layer` has to have all its pages on the device, although it selects.
  bool IsWhole(uint32_t layer) const;
  Status OpenContext(const Document* document, bool private_pages);
  /// Takes over the context of `suspended`, and brings back what has a fixed slot. Layers that are
  /// whole take their pages from `dense`, unless that is null, where it holds everything.
  Status Reload(SuspendedRun* suspended, std::unique_ptr<BudgetCache> dense = nullptr);
  Status LoadDocument(const Document& document);
  Status TakeSeat(SessionSource* sessions);
  Status LoadPolicy();
  /// The policy that the sequence was opened with.
  RetrievalPolicy& own_policy() const {
    return after_prompt_ != nullptr ? *after_prompt_ : *policy_;
  }
  /// Shows the document's tokens to policies that select by tokens, and the hidden states to those
  /// that see them. They are computed here, unless the store has what follows from them.
  Status ShowDocument(const Document* document);
  Status ComputeHidden(std::span<const TokenId> tokens, HiddenTap* tap) const;
  /// Takes a seat among those over the document.
  void ShareDocument(const DocumentPages& document);
  const DocumentSeat* shared() const { return shared_ ? &*shared_ : nullptr; }
  /// Which units of the host tier are this run's.
  HostPages MakeHostPages() const;
  /// Connects attention, once there are cache, policy and seat.
  void Connect();
  StatusOr<std::vector<std::byte>> ExportOpenPage() const;
  Status ImportOpenPage(std::vector<std::byte> units);
  Status Flush();

  const EngineParts parts_;
  const RetrievalOptions& retrieval_;
  RunStats* const stats_;
  std::unique_ptr<RetrievalPolicy> policy_;
  std::unique_ptr<RetrievalPolicy> after_prompt_;  ///< Policy after a dense prompt; null otherwise.
  std::unique_ptr<BudgetCache> cache_;
  std::unique_ptr<OwnedContext> context_;
  HostPages host_pages_;
  std::optional<DocumentPages> document_;
  std::optional<DocumentSeat> shared_;  ///< Over the cache: goes first. Unset without a document.
  std::unique_ptr<SessionSeat> seat_;   ///< Null when no layer has selectable pages.
  std::optional<RecallPipeline> pipeline_;
  std::optional<Offloader> offloader_;  ///< After the context: it goes before that is dropped.
  std::optional<CacheBackend> backend_;
  std::vector<TokenId> unflushed_;  ///< Token ids from the first page that is not complete on.
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_ENGINE_PAGED_RUN_H_
