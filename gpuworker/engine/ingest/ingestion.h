// SPDX-License-Identifier: Apache-2.0
//
// Ingestion: reads one list of tokens into the store. Dense prefill in chunks. Pages of a chunk go
// to an open context layer by layer while the model continues (layer_sender.h). The context is
// sealed at the end. Pages that the store has are fetched instead of computed. Where
// representatives are wanted, those of the pages that were computed follow. Statistics are
// collected where all is computed. One object for one document.
//
// Thread-safety: none. Ownership: what it is given outlives it.
#ifndef QUIRE_GPUWORKER_ENGINE_INGEST_INGESTION_H_
#define QUIRE_GPUWORKER_ENGINE_INGEST_INGESTION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "common/base/threads/executor.h"
#include "gpuworker/cache/budget_cache.h"
#include "gpuworker/context/statistics/statistics_collector.h"
#include "gpuworker/engine/engine.h"
#include "gpuworker/engine/ingest/represented_pages.h"
#include "gpuworker/engine/offload/layer_sender.h"
#include "gpuworker/engine/parts.h"
#include "quire/client.h"
#include "quire/key.h"
#include "quire/status.h"

namespace quire::worker {

class Ingestion {
 public:
  /// `storage` says how the pages are kept; its collection outlives the ingestion.
  Ingestion(const EngineParts& parts, std::span<const TokenId> tokens, ContextOptions storage,
            const IngestObserver& observer)
      : parts_(parts), tokens_(tokens), storage_(std::move(storage)), observer_(observer) {}
  /// Drops the context when Run did not seal it.
  ~Ingestion();
  Ingestion(const Ingestion&) = delete;
  Ingestion& operator=(const Ingestion&) = delete;

  /// Stores the tokens and returns the key of the chain's last segment. Nothing is left half done:
  /// after an error the store has whole segments at most. CANCELLED when the observer ends it.
  StatusOr<SegmentKey> Run();

  uint64_t reused_tokens() const { return reused_tokens_; }
  uint64_t bytes_sent() const { return bytes_sent_; }
  /// IngestResult::representatives
  const Status& representatives() const { return representatives_; }
  /// Statistics of the whole document, after Run; null where none were collected.
  const StatisticsCollector* statistics() const { return statistics_ ? &*statistics_ : nullptr; }

 private:
  /// Drops the open context, if there is one.
  void DropContext();
  /// Opens a context, and a cache that starts with the stored prefix.
  Status Start(const LookupResult& stored);
  Status LoadPrefix(const LookupResult& stored);
  Status Prefill();
  StatusOr<SegmentKey> Seal();
  /// Gives the segments that were computed what represents their pages. Those that were reused keep
  /// what they have.
  Status PutRepresentatives();
  /// The short last page, [num_layers][n_kv] units of `rows` tokens.
  StatusOr<Payload> ExportTail(uint32_t rows) const;
  /// Tells the observer.
  Status Report(uint64_t done_tokens) const;
  /// Reads the tokens from `at` on, a chunk at a time.
  Status ReadFrom(uint64_t at, AttentionBackend& attention);

  const EngineParts parts_;
  const std::span<const TokenId> tokens_;
  const ContextOptions storage_;
  const IngestObserver& observer_;
  std::unique_ptr<BudgetCache> cache_;
  std::optional<RepresentedPages> represented_;
  std::optional<StatisticsCollector> statistics_;
  std::optional<OpenedContext> context_;  ///< Until it is sealed.
  ThreadPool sending_{ThreadPool::Options{.threads = 1, .queue_limit = 1}};
  std::optional<LayerSender> sender_;  ///< After the thread that it sends on.
  uint64_t reused_tokens_ = 0;
  uint64_t bytes_sent_ = 0;
  Status representatives_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_ENGINE_INGEST_INGESTION_H_
