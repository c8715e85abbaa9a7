// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/engine/paged_run.h"

#include <algorithm>
#include <utility>

#include "common/page/layout.h"
#include "gpuworker/engine/page_loader.h"

namespace quire::worker {

StatusOr<std::unique_ptr<PagedRun>> PagedRun::Open(const EngineParts& parts,
                                                   const RetrievalOptions& retrieval,
                                                   const Document* document, RunStats* stats) {
  auto run = std::unique_ptr<PagedRun>(new PagedRun(parts, retrieval, stats));
  QUIRE_RETURN_IF_ERROR(run->MakeCache());
  QUIRE_RETURN_IF_ERROR(run->OpenContext(document));
  if (document != nullptr) QUIRE_RETURN_IF_ERROR(run->LoadDocument(*document));
  QUIRE_RETURN_IF_ERROR(run->OpenSession());
  run->pipeline_.emplace(RecallPipeline::Dependencies{.session = run->session_.get(),
                                                      .cache = run->cache_.get(),
                                                      .policy = run->policy_.get(),
                                                      .device = parts.device,
                                                      .clock = parts.clock,
                                                      .options = &run->retrieval_,
                                                      .stats = &stats->recall,
                                                      .host = run->MakeHostPages(document),
                                                      .executor = parts.recall_executor});
  run->offloader_.emplace(parts, run->policy_.get());
  run->backend_.emplace(run->cache_.get(), &*run->pipeline_, &*run->offloader_);
  return run;
}

PagedRun::~PagedRun() {
  pipeline_.reset();  // Gives up what is under way.
  session_.reset();
  // A context that cannot be dropped now is forgotten by the server when it has idled too long.
  if (context_id_) (void)parts_.client->DropContext(*context_id_);
}

Status PagedRun::MakeCache() {
  QUIRE_ASSIGN_OR_RETURN(policy_,
                         MakePolicy({.spec = *parts_.spec,
                                     .device = parts_.device,
                                     .max_context_tokens = parts_.decoder->config().max_positions,
                                     .options = retrieval_}));
  std::vector<CacheLayout> layouts;
  for (uint32_t layer = 0; layer < parts_.spec->num_layers; ++layer) {
    layouts.push_back(policy_->Layout(layer));
  }
  QUIRE_ASSIGN_OR_RETURN(cache_, BudgetCache::Create(*parts_.spec, parts_.device, layouts));
  return OkStatus();
}

Status PagedRun::OpenContext(const Document* document) {
  std::optional<ContextRef> continues;
  std::string_view collection;
  if (document != nullptr) {
    continues = ContextRef(document->chain_tip);
    collection = document->name.collection;  // What is appended is kept as the document is.
  }
  const StatusOr<OpenedContext> reply =
      parts_.client->OpenContext(*parts_.spec, continues, collection);
  if (!reply.ok()) {
    return document == nullptr ? reply.status()
                               : Annotate(reply.status(), "document ", document->name.name);
  }
  const OpenedContext& opened = *reply;
  context_id_ = opened.id;
  const uint32_t p = parts_.spec->page_tokens;
  const uint64_t expected = document == nullptr ? 0 : document->num_tokens / p * p;
  if (opened.num_tokens == expected) return OkStatus();
  return DataLoss("the server continues the document at token ", opened.num_tokens,
                  "; its complete pages end at ", expected);
}

Status PagedRun::LoadDocument(const Document& document) {
  QUIRE_RETURN_IF_ERROR(cache_->StartAt(document.num_tokens));
  QUIRE_ASSIGN_OR_RETURN(const uint64_t bytes,
                         LoadFixedPages(parts_, ContextRef(document.chain_tip), cache_.get()));
  stats_->bytes_at_open += bytes;
  const uint64_t tail = document.num_tokens % parts_.spec->page_tokens;
  if (tail == 0) return OkStatus();
  QUIRE_ASSIGN_OR_RETURN(unflushed_, ReadTailTokens(parts_, document.chain_tip));
  if (unflushed_.size() == tail) return OkStatus();
  return DataLoss("the document's last page has ", tail, " tokens, the server names ",
                  unflushed_.size());
}

Status PagedRun::OpenSession() {
  Client::SessionOptions options{.spec = *parts_.spec, .managed_layers = {}};
  for (uint32_t layer = 0; layer < cache_->num_layers(); ++layer) {
    const uint32_t slots = cache_->table(layer).layout().selectable_pages;
    if (slots == 0) continue;
    options.managed_layers.push_back(layer);
    options.slots_per_head = std::max(options.slots_per_head, slots);
  }
  if (retrieval_.side == SelectionSide::kServer) {
    options.hold_digests.emplace().kind = retrieval_.digest;
  }
  if (!options.managed_layers.empty()) {
    QUIRE_ASSIGN_OR_RETURN(session_, parts_.client->OpenSession(ContextRef(*context_id_), options));
  }
  const uint32_t complete = static_cast<uint32_t>(num_tokens() / parts_.spec->page_tokens);
  QUIRE_ASSIGN_OR_RETURN(const uint64_t bytes, LoadDigests(parts_, session_.get(), complete,
                                                           retrieval_.digest, policy_.get()));
  stats_->bytes_digests += bytes;
  QUIRE_ASSIGN_OR_RETURN(const uint64_t unit_bytes,
                         LoadUnits(parts_, ContextRef(*context_id_), complete, policy_.get()));
  stats_->bytes_at_open += unit_bytes;
  return OkStatus();
}

HostPages PagedRun::MakeHostPages(const Document* document) const {
  if (document == nullptr) return {parts_.host_tier, {}, 0, *context_id_};
  const auto whole = static_cast<uint32_t>(document->num_tokens / parts_.spec->page_tokens);
  return {parts_.host_tier, document->chain_tip, whole, *context_id_};
}

double PagedRun::ResidentTokens() const {
  uint64_t tokens = 0;
  const uint32_t heads = parts_.spec->num_kv_heads;
  for (uint32_t layer = 0; layer < cache_->num_layers(); ++layer) {
    for (uint32_t head = 0; head < heads; ++head) {
      tokens += cache_->table(layer).AttendedTokens(head);
    }
  }
  return static_cast<double>(tokens) / (double{1} * cache_->num_layers() * heads);
}

Status PagedRun::Forward(std::span<const TokenId> tokens, Decoder::Logits what, float* logits) {
  QUIRE_RETURN_IF_ERROR(parts_.decoder->Forward(tokens, num_tokens(), *backend_, what, logits));
  unflushed_.insert(unflushed_.end(), tokens.begin(), tokens.end());
  return Flush();
}

Status PagedRun::Flush() {
  const size_t complete = size_t{offloader_->pending().size()} * parts_.spec->page_tokens;
  if (complete == 0) return OkStatus();
  QUIRE_ASSIGN_OR_RETURN(const uint64_t bytes,
                         offloader_->Flush(*context_id_, std::span(unflushed_).first(complete)));
  stats_->bytes_appended += bytes;
  unflushed_.erase(unflushed_.begin(), unflushed_.begin() + static_cast<ptrdiff_t>(complete));
  return OkStatus();
}

}  // namespace quire::worker
