// SPDX-License-Identifier: Apache-2.0
//
// PagedRun: everything of a sequence that hangs on the server: an open context that continues the
// document, the session over it, and the cache, policy and recalls that follow from them. When the
// server loses one of these, the whole run is thrown away and another one opened.
//
// Thread-safety: none. Ownership: what it is given outlives it.
#ifndef QUIRE_GPUWORKER_ENGINE_PAGED_RUN_H_
#define QUIRE_GPUWORKER_ENGINE_PAGED_RUN_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "client/client.h"
#include "client/session.h"
#include "common/base/status.h"
#include "common/page/key.h"
#include "gpuworker/cache/budget_cache.h"
#include "gpuworker/engine/cache_backend.h"
#include "gpuworker/engine/offloader.h"
#include "gpuworker/engine/parts.h"
#include "gpuworker/recall/recall_pipeline.h"
#include "gpuworker/retrieval/policy.h"

namespace quire::worker {

/// What runs add to; survives them. Bytes are payload bytes.
struct RunStats {
  uint64_t bytes_at_open = 0;
  uint64_t bytes_digests = 0;
  uint64_t bytes_appended = 0;
  RecallStats recall;
};

class PagedRun {
 public:
  /// Opens over `document` (null: over nothing). `retrieval` and `stats` outlive the run.
  static StatusOr<std::unique_ptr<PagedRun>> Open(const EngineParts& parts,
                                                  const RetrievalOptions& retrieval,
                                                  const Document* document, RunStats* stats);
  /// Closes the session and drops the context, as far as the server answers.
  ~PagedRun();
  PagedRun(const PagedRun&) = delete;
  PagedRun& operator=(const PagedRun&) = delete;

  uint64_t num_tokens() const { return cache_->table(0).num_tokens(); }
  /// Tokens that one Forward may have.
  uint32_t max_step_tokens() const { return CacheBackend::MaxStepTokens(*cache_); }
  /// Tokens attended to in the last step, a mean over layers and KV heads.
  double ResidentTokens() const;

  /// Runs `tokens` after those that it has (Decoder::Forward) and offloads the pages they complete.
  /// After an error the run is good for nothing.
  [[nodiscard]] Status Forward(std::span<const TokenId> tokens, Decoder::Logits what,
                               float* logits);

 private:
  PagedRun(const EngineParts& parts, const RetrievalOptions& retrieval, RunStats* stats)
      : parts_(parts), retrieval_(retrieval), stats_(stats) {}
  Status MakeCache();
  Status OpenContext(const Document* document);
  Status LoadDocument(const Document& document);
  Status OpenSession();
  HostPages MakeHostPages(const Document* document) const;
  Status Flush();

  const EngineParts parts_;
  const RetrievalOptions& retrieval_;
  RunStats* const stats_;
  std::unique_ptr<RetrievalPolicy> policy_;
  std::unique_ptr<BudgetCache> cache_;
  std::optional<uint64_t> context_id_;
  std::unique_ptr<ClientSession> session_;  ///< Null when no layer has selectable pages.
  std::optional<RecallPipeline> pipeline_;
  std::optional<Offloader> offloader_;
  std::optional<CacheBackend> backend_;
  std::vector<TokenId> unflushed_;  ///< Token ids from the first page that is not on the server on.
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_ENGINE_PAGED_RUN_H_
