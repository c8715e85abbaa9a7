// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/engine/engine.h"

#include <algorithm>
#include <utility>

#include "gpuworker/engine/ingest/ingestion.h"
#include "gpuworker/engine/ingest/stored_statistics.h"
#include "gpuworker/engine/request_checks.h"
#include "gpuworker/engine/sequence_impl.h"
#include "gpuworker/model/dense_cache.h"
#include "gpuworker/retrieval/page_observer.h"
#include "quire/layout.h"

namespace quire::worker {
namespace {

/// Times that a document is ingested before it is given up whose segments go meanwhile.
constexpr int kMostIngestions = 4;

}  // namespace

StatusOr<std::unique_ptr<Engine>> Engine::Create(const Decoder* decoder, Client* client,
                                                 Device* device, EngineOptions options) {
  if (options.prefill_chunk_tokens == 0) {
    return InvalidArgument("prefill_chunk_tokens is 0; give it 1 or more, 512 is a good value");
  }
  if (options.clock == nullptr) options.clock = &SystemClock();
  auto engine = std::unique_ptr<Engine>(new Engine(decoder, client, device, std::move(options)));
  if (const std::string problem = Problem(engine->spec_); !problem.empty()) {
    return InvalidArgument("the engine's pages cannot be described: ", problem);
  }
  // The policy's own checks of the default options, without keeping it.
  QUIRE_ASSIGN_OR_RETURN(const auto policy,
                         MakeSequencePolicy(engine->Parts(), engine->options_.retrieval));
  const PageObserver* const observer = policy->page_observer();
  for (uint32_t layer = 0; observer != nullptr && layer < engine->spec_.num_layers; ++layer) {
    engine->representatives_ |=
        observer->WantedDigests(layer) == kernels::DigestKind::kRepresentatives;
  }
  if (engine->representatives_ && !engine->spec_.has_values()) {
    return Unimplemented(
        "representatives of pages are measured over keys of heads, which latent "
        "attention does not cache; leave them away, and select by another digest");
  }
  return engine;
}

Engine::Engine(const Decoder* decoder, Client* client, Device* device, EngineOptions options)
    : decoder_(decoder),
      client_(client),
      device_(device),
      options_(std::move(options)),
      spec_(decoder->MakeKvSpec(options_.dtype, options_.page_tokens, options_.segment_pages)),
      representatives_(options_.representatives ||
                       options_.retrieval.digest == kernels::DigestKind::kRepresentatives),
      host_tier_(options_.host_cache_bytes > 0
                     ? std::make_unique<HostTier>(options_.host_cache_bytes)
                     : nullptr),
      heads_(decoder, device),
      unit_buffers_(std::make_unique<UnitBuffers>(device, SegmentBytes(spec_, 1))),
      recall_thread_(std::make_unique<ThreadPool>(ThreadPool::Options{.threads = 1})),
      offload_thread_(std::make_unique<ThreadPool>(ThreadPool::Options{.threads = 1})) {}

EngineParts Engine::Parts() const {
  return {.decoder = decoder_,
          .client = client_,
          .device = device_,
          .spec = &spec_,
          .clock = options_.clock,
          .prefill_chunk_tokens = std::min(options_.prefill_chunk_tokens, Decoder::kBlockTokens),
          .max_batch_bytes = options_.max_batch_bytes,
          .question_chunk_tokens = options_.question_chunk_tokens,
          .representatives = representatives_,
          // Readers compute parts of prompts, which latent attention does not.
          .statistics = options_.statistics && spec_.has_values(),
          .statistics_block_tokens = options_.statistics_block_tokens,
          .recall_executor = recall_thread_.get(),
          .offload_executor = offload_thread_.get(),
          .unit_buffers = unit_buffers_.get(),
          .host_tier = host_tier_.get(),
          .sessions = options_.sessions,
          .heads = &heads_,
          .head = options_.head.get(),
          .reuse_costs = &reuse_costs_};
}

Status Engine::CheckTokens(std::span<const TokenId> tokens) const {
  if (tokens.empty()) return InvalidArgument("there are no tokens; give at least one");
  if (tokens.size() > model().max_positions) {
    return InvalidArgument(tokens.size(), " tokens are more than the model's context of ",
                           model().max_positions, "; split or shorten the text");
  }
  return CheckVocabulary(model(), tokens);
}

StatusOr<IngestResult> Engine::Ingest(std::span<const TokenId> tokens, const DocumentName& name,
                                      const IngestObserver& observer,
                                      const RegisterOptions& registration,
                                      const Hints& hints) const {
  QUIRE_RETURN_IF_ERROR(CheckTokens(tokens));
  const TimePoint start = options_.clock->Now();
  EngineParts parts = Parts();
  QUIRE_ASSIGN_OR_RETURN(parts.client, client_->ForPut(name));
  for (int tries = 1;; ++tries) {
    Ingestion ingestion(parts, tokens, {.collection = name.collection, .hints = hints}, observer);
    QUIRE_ASSIGN_OR_RETURN(const SegmentKey tip, ingestion.Run());
    StatusOr<Document> document = parts.client->RegisterDocument(name, tip, registration);
    // A delete of another document can take what was found before this one names it.
    if (IsNotFound(document.status()) && tries < kMostIngestions) continue;
    QUIRE_RETURN_IF_ERROR(document.status());
    const Status statistics =
        ingestion.statistics() == nullptr
            ? OkStatus()
            : PutStatistics(parts.client, document->name, ingestion.statistics()->Statistics());
    return IngestResult{.document = *std::move(document),
                        .reused_tokens = ingestion.reused_tokens(),
                        .bytes_sent = ingestion.bytes_sent(),
                        .seconds = SecondsSince(*options_.clock, start),
                        .representatives = ingestion.representatives(),
                        .statistics = statistics};
  }
}

StatusOr<std::unique_ptr<Sequence>> Engine::OpenSequence(
    const std::optional<DocumentName>& document, const SequenceOptions& options) const {
  if (!options.document_tokens.empty()) {
    if (!document) return InvalidArgument("document_tokens are given without a document");
    QUIRE_RETURN_IF_ERROR(CheckTokens(options.document_tokens));
  }
  SequenceOptions complete = options;
  if (!complete.retrieval) complete.retrieval = options_.retrieval;
  auto impl = std::make_unique<Sequence::Impl>(Parts(), std::move(complete));
  QUIRE_RETURN_IF_ERROR(impl->Open(document));
  return std::unique_ptr<Sequence>(new Sequence(std::move(impl)));
}

StatusOr<std::unique_ptr<ReuseRun>> Engine::OpenReuse(std::span<const DocumentName> documents,
                                                      std::span<const TokenId> question,
                                                      const ReuseOptions& options) const {
  return ReuseRun::Open(Parts(), documents, question, options);
}

StatusOr<std::vector<float>> Engine::DenseLogits(std::span<const TokenId> tokens, size_t count,
                                                 const TokensObserver& observer) const {
  QUIRE_RETURN_IF_ERROR(CheckTokens(tokens));
  if (count > tokens.size()) {
    return InvalidArgument("logits after the last ", count, " of ", tokens.size(), " tokens");
  }
  DenseCache cache(model(), device_, tokens.size());
  const size_t rest = tokens.size() - count;
  std::vector<float> logits(count * model().vocab_size);
  const size_t chunk = Parts().prefill_chunk_tokens;
  for (size_t at = 0; at < rest;) {
    const size_t step = std::min(chunk, rest - at);
    QUIRE_RETURN_IF_ERROR(
        decoder_->Forward(tokens.subspan(at, step), at, cache, Decoder::Logits::kNone, nullptr));
    if (observer) observer(step);
    at += step;
  }
  if (count > 0) {
    QUIRE_RETURN_IF_ERROR(
        decoder_->Forward(tokens.last(count), rest, cache, Decoder::Logits::kAll, logits.data()));
    if (observer) observer(count);
  }
  return logits;
}

}  // namespace quire::worker
