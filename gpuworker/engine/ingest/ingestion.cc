// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/engine/ingest/ingestion.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "gpuworker/engine/cache_backend.h"
#include "gpuworker/engine/offload/page_exporter.h"
#include "gpuworker/engine/page_loader.h"
#include "gpuworker/retrieval/dense_policy.h"

namespace quire::worker {
namespace {

/// The stored bytes are gone or bad; computing them anew helps.
bool CanRecompute(const Status& status) { return IsNotFound(status) || IsDataLoss(status); }

}  // namespace

Ingestion::~Ingestion() {
  sender_.reset();
  DropContext();
}

void Ingestion::DropContext() {
  if (context_) (void)parts_.client->DropContext(context_->id);
  context_.reset();
}

StatusOr<SegmentKey> Ingestion::Run() {
  QUIRE_ASSIGN_OR_RETURN(const LookupResult stored,
                         parts_.client->Lookup(*parts_.spec, tokens_, storage_.hints));
  if (stored.num_tokens == tokens_.size() && !stored.segment_keys.empty()) {
    reused_tokens_ = stored.num_tokens;
    QUIRE_RETURN_IF_ERROR(Report(reused_tokens_));
    return stored.segment_keys.back();
  }
  Status started = Start(stored);
  if (CanRecompute(started) && stored.num_tokens > 0) started = Start({});
  QUIRE_RETURN_IF_ERROR(started);
  QUIRE_RETURN_IF_ERROR(Prefill());
  QUIRE_ASSIGN_OR_RETURN(const SegmentKey tip, Seal());
  representatives_ = PutRepresentatives();  // The document is good without.
  return tip;
}

Status Ingestion::Start(const LookupResult& stored) {
  DropContext();
  std::optional<ContextRef> continues;
  if (!stored.segment_keys.empty()) continues = ContextRef(stored.segment_keys.back());
  QUIRE_ASSIGN_OR_RETURN(context_, parts_.client->OpenContext(*parts_.spec, continues, storage_));
  if (context_->num_tokens != stored.num_tokens) {
    return DataLoss("the server continues the stored prefix at token ", context_->num_tokens,
                    ", not at ", stored.num_tokens);
  }
  const std::vector<CacheLayout> layouts =
      DenseLayouts(parts_.decoder->config().Windows(), parts_.spec->num_layers);
  QUIRE_ASSIGN_OR_RETURN(cache_, BudgetCache::Create(*parts_.spec, parts_.device, layouts,
                                                     /*staging_buffers=*/1, SoftCapOf(parts_)));
  return stored.num_tokens == 0 ? OkStatus() : LoadPrefix(stored);
}

Status Ingestion::LoadPrefix(const LookupResult& stored) {
  QUIRE_RETURN_IF_ERROR(cache_->StartAt(stored.num_tokens));
  QUIRE_RETURN_IF_ERROR(
      LoadFixedPages(parts_, ContextRef(stored.segment_keys.back()), nullptr, cache_.get())
          .status());
  reused_tokens_ = stored.num_tokens;
  return OkStatus();
}

Status Ingestion::Prefill() {
  sender_.emplace(parts_, context_->id, tokens_, &sending_);
  CacheBackend dense(cache_.get(), nullptr, &*sender_);
  AttentionBackend* attention = &dense;
  if (parts_.representatives) {
    const auto first = static_cast<uint32_t>(reused_tokens_ / parts_.spec->page_tokens);
    attention = &represented_.emplace(&dense, *parts_.spec, parts_.device, first);
  }
  if (parts_.statistics && reused_tokens_ == 0) {
    attention = &statistics_.emplace(parts_.decoder->config(), parts_.device, attention,
                                     BlockSplit{.tokens = static_cast<uint32_t>(tokens_.size()),
                                                .block_tokens = parts_.statistics_block_tokens});
  }
  const Status read = ReadFrom(reused_tokens_, *attention);
  if (!read.ok() && read.code() != StatusCode::kCancelled) return read;
  QUIRE_ASSIGN_OR_RETURN(bytes_sent_, sender_->Finish());  // Computed pages are kept.
  return read;
}

Status Ingestion::ReadFrom(uint64_t at, AttentionBackend& attention) {
  QUIRE_RETURN_IF_ERROR(Report(at));
  while (at < tokens_.size()) {
    const uint64_t count = std::min<uint64_t>(parts_.prefill_chunk_tokens, tokens_.size() - at);
    QUIRE_RETURN_IF_ERROR(parts_.decoder->Forward(tokens_.subspan(at, count), at, attention,
                                                  Decoder::Logits::kNone, nullptr));
    at += count;
    QUIRE_RETURN_IF_ERROR(Report(at));
  }
  return OkStatus();
}

StatusOr<Payload> Ingestion::ExportTail(uint32_t rows) const {
  Payload tail;
  if (rows == 0) return tail;
  PageExporter exporter(parts_);
  const auto page = static_cast<uint32_t>(tokens_.size() / parts_.spec->page_tokens);
  QUIRE_ASSIGN_OR_RETURN(const std::shared_ptr<UnitBuffer> units,
                         exporter.ExportNow(*cache_, page, rows));
  tail.Append(Slice{{units->bytes.get(), exporter.page_bytes()}, units});
  return tail;
}

StatusOr<SegmentKey> Ingestion::Seal() {
  const auto rows = static_cast<uint32_t>(tokens_.size() % parts_.spec->page_tokens);
  QUIRE_ASSIGN_OR_RETURN(const Payload tail, ExportTail(rows));
  QUIRE_ASSIGN_OR_RETURN(const ContextInfo sealed,
                         parts_.client->Seal(context_->id, tokens_.last(rows), tail));
  context_.reset();
  bytes_sent_ += tail.size_bytes();
  if (sealed.num_tokens == tokens_.size()) return sealed.chain_tip;
  return DataLoss("the server sealed ", sealed.num_tokens, " of ", tokens_.size(), " tokens");
}

Status Ingestion::PutRepresentatives() {
  if (!represented_) return OkStatus();
  represented_->Finish();
  QUIRE_ASSIGN_OR_RETURN(const LookupResult stored, parts_.client->Lookup(*parts_.spec, tokens_));
  if (stored.num_tokens != tokens_.size()) {
    return NotFound("of the ", tokens_.size(), " tokens that were stored ", stored.num_tokens,
                    " are there");
  }
  const uint32_t g = parts_.spec->segment_pages;
  const uint32_t num_pages = PageCount(*parts_.spec, tokens_.size());
  for (uint64_t at = reused_tokens_ / parts_.spec->segment_tokens();
       at < stored.segment_keys.size(); ++at) {
    const auto first = static_cast<uint32_t>(at * g);
    auto digests = std::make_shared<const std::vector<std::byte>>(
        represented_->Digests({first, std::min(first + g, num_pages)}));
    Payload payload;
    payload.Append(Slice{*digests, digests});
    QUIRE_RETURN_IF_ERROR(
        parts_.client->PutRepresentatives(stored.segment_keys[at], payload).status());
  }
  return OkStatus();
}

Status Ingestion::Report(uint64_t done_tokens) const {
  if (!observer_ || observer_({.done_tokens = done_tokens,
                               .reused_tokens = reused_tokens_,
                               .total_tokens = tokens_.size()})) {
    return OkStatus();
  }
  return MakeStatus(StatusCode::kCancelled, "stopped after ", done_tokens, " of ", tokens_.size(),
                    " tokens; whole segments stay stored, and are not computed again");
}

}  // namespace quire::worker
