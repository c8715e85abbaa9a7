// SPDX-License-Identifier: Apache-2.0
//
// Engine: a model whose KV pages live in a Quire store. It reads documents into the store and opens
// sequences that answer questions over them.
//
//   QUIRE_ASSIGN_OR_RETURN(auto decoder, Decoder::Load("models/recall-small", &CpuDevice()));
//   QUIRE_ASSIGN_OR_RETURN(auto engine, Engine::Create(decoder.get(), client.get(), &CpuDevice(),
//                                                      EngineOptions{}));
//   QUIRE_RETURN_IF_ERROR(engine->Ingest(document_ids, {.name = "report.txt"}).status());
//   QUIRE_ASSIGN_OR_RETURN(auto sequence, engine->OpenSequence(DocumentName{.name =
//   "report.txt"})); QUIRE_RETURN_IF_ERROR(sequence->Append(question_ids));
//   QUIRE_ASSIGN_OR_RETURN(Generation answer, sequence->Generate({.max_new_tokens = 8}));
//
// Many sequences at a time: Batch (batch.h).
//
// Thread-safety: all methods may be called concurrently; each Sequence belongs to one thread at a
// time. Ownership: decoder, client, device and clock outlive the engine.
#ifndef QUIRE_GPUWORKER_ENGINE_ENGINE_H_
#define QUIRE_GPUWORKER_ENGINE_ENGINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/base/threads/executor.h"
#include "gpuworker/cache/host_tier.h"
#include "gpuworker/context/block_split.h"
#include "gpuworker/device/device.h"
#include "gpuworker/engine/ingest/retrieval_heads.h"
#include "gpuworker/engine/offload/unit_buffers.h"
#include "gpuworker/engine/parts.h"
#include "gpuworker/engine/reuse/reuse_costs.h"
#include "gpuworker/engine/reuse/reuse_run.h"
#include "gpuworker/engine/sequence.h"
#include "gpuworker/head/head_weights.h"
#include "gpuworker/model/decoder.h"
#include "gpuworker/retrieval/options.h"
#include "quire/client.h"
#include "quire/clock.h"
#include "quire/key.h"
#include "quire/kv_spec.h"
#include "quire/status.h"

namespace quire::worker {

struct EngineOptions {
  DType dtype = DType::kF32;            ///< Type of keys and values in pages.
  uint32_t page_tokens = 32;            ///< Tokens of a page (p).
  uint32_t segment_pages = 8;           ///< Pages of a segment (g).
  RetrievalOptions retrieval;           ///< Default for sequences without options.
  uint32_t prefill_chunk_tokens = 512;  ///< Tokens of one forward pass while reading a document.
  /// Questions over a document of as many tokens or more attend to all pages at once. The policy
  /// selects for the tokens behind them. Each token of a shorter question attends to the policy's
  /// selection for it. 0: all questions are short.
  uint32_t question_chunk_tokens = 0;
  /// Finds which tokens represent the pages of documents while they are read, and stores that with
  /// them (represented_pages.h). Always done where `retrieval` scores pages by it. The processor
  /// computes the attention of each token over the 4096 before it once more, and keeps their keys.
  /// Meant for small models and comparisons.
  bool representatives = false;
  /// Collects SamKV's statistics of documents that are computed from their first token on, and
  /// stores them beside. Keeps the document's keys in f32 in host memory meanwhile. A question by
  /// SamKV computes those of other documents.
  bool statistics = true;
  /// Tokens of a block of SamKV's statistics (block_split.h), at least one. Shorter blocks serve
  /// documents of few hundred tokens, of which three published ones would be half.
  uint32_t statistics_block_tokens = BlockSplit{}.block_tokens;
  /// Payload of one call, at least one page of all layers. A sequence, or a document that is read,
  /// has at most five of them in memory on their way to the store.
  uint64_t max_batch_bytes = 8u << 20;
  /// Bytes of worker memory for recalled units, shared by all sequences. Units selected again are
  /// placed from there. 0 keeps none.
  uint64_t host_cache_bytes = 0;
  /// A retrieval head of the model, for policies that select with one; null for none.
  std::shared_ptr<const HeadWeights> head = nullptr;
  Clock* clock = nullptr;  ///< SystemClock() when null.
  /// Where sequences that run alone get the lanes of their recalls; outlives the engine, and all
  /// of them belong to one thread then. Each opens a session of its own when null.
  SessionSource* sessions = nullptr;
};

struct IngestProgress {
  uint64_t done_tokens = 0;    ///< Computed and on their way to the store, or reused.
  uint64_t reused_tokens = 0;  ///< Found in the store and not computed again.
  uint64_t total_tokens = 0;
};
/// Called after each chunk of tokens; false ends the reading.
using IngestObserver = std::function<bool(const IngestProgress&)>;

struct IngestResult {
  Document document;
  uint64_t reused_tokens = 0;
  uint64_t bytes_sent = 0;  ///< Payload bytes of pages that were not stored yet.
  double seconds = 0;
  /// Why some computed pages lack representatives that were wanted. Such pages are scored by the
  /// means of their keys, also when the document is read again.
  Status representatives;
  /// Why the document lacks statistics that were collected.
  Status statistics;
};

class Engine {
 public:
  /// INVALID_ARGUMENT for options that do not fit the model.
  static StatusOr<std::unique_ptr<Engine>> Create(const Decoder* decoder, Client* client,
                                                  Device* device, EngineOptions options);

  const ModelConfig& model() const { return decoder_->config(); }
  const KvSpec& spec() const { return spec_; }
  const Device& device() const { return *device_; }
  const EngineOptions& options() const { return options_; }
  Client& client() const { return *client_; }

  /// Reads `tokens` into the store with the codec of the name's collection, and registers them as
  /// `name`. Whole segments that the store has under the same token ids are neither computed nor
  /// sent again.
  /// `hints` are of all its pages.
  /// - INVALID_ARGUMENT: no tokens, an unknown token id, or more tokens than the model's context,
  ///   naming both numbers.
  /// - CANCELLED: the observer ended it. Whole segments that were computed stay stored.
  StatusOr<IngestResult> Ingest(std::span<const TokenId> tokens, const DocumentName& name,
                                const IngestObserver& observer = {},
                                const RegisterOptions& registration = {},
                                const Hints& hints = {}) const;

  /// Opens a sequence that continues `document`, or an empty one.
  StatusOr<std::unique_ptr<Sequence>> OpenSequence(const std::optional<DocumentName>& document,
                                                   const SequenceOptions& options = {}) const;

  /// Prefills `question` over several documents (reuse_run.h).
  StatusOr<std::unique_ptr<ReuseRun>> OpenReuse(std::span<const DocumentName> documents,
                                                std::span<const TokenId> question,
                                                const ReuseOptions& options) const;

  /// Counts of the units kept in this worker's memory; zeros without a host tier.
  HostTier::Stats host_cache_stats() const {
    return host_tier_ != nullptr ? host_tier_->stats() : HostTier::Stats{};
  }

  /// Dense attention without the store: logits after each of the last `count` of `tokens`,
  /// [count][vocab_size]. Sparse logits are compared with them. `observer` is told of every chunk
  /// of tokens that has run.
  using TokensObserver = std::function<void(uint64_t tokens)>;
  StatusOr<std::vector<float>> DenseLogits(std::span<const TokenId> tokens, size_t count,
                                           const TokensObserver& observer = {}) const;

 private:
  friend class Batch;
  Engine(const Decoder* decoder, Client* client, Device* device, EngineOptions options);

  /// INVALID_ARGUMENT for no tokens, more than the model's context, or unknown ids.
  Status CheckTokens(std::span<const TokenId> tokens) const;
  EngineParts Parts() const;

  const Decoder* const decoder_;
  Client* const client_;
  Device* const device_;
  const EngineOptions options_;
  const KvSpec spec_;
  bool representatives_;                       ///< Set by Create, too.
  const std::unique_ptr<HostTier> host_tier_;  ///< Null for none.
  mutable HeadCalibration heads_;
  mutable ReuseCosts reuse_costs_;
  const std::unique_ptr<UnitBuffers> unit_buffers_;
  /// They take recalled units in, and send the pages that sequences complete, beside the model.
  /// Last: what they run may use all of the above.
  const std::unique_ptr<ThreadPool> recall_thread_;
  const std::unique_ptr<ThreadPool> offload_thread_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_ENGINE_ENGINE_H_
