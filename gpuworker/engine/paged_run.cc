// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/engine/paged_run.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "gpuworker/engine/head_keys.h"
#include "gpuworker/engine/page_loader.h"
#include "gpuworker/engine/request_checks.h"
#include "gpuworker/memory/slot_memory.h"
#include "gpuworker/model/dense_cache.h"
#include "gpuworker/retrieval/page_observer.h"
#include "gpuworker/retrieval/token_observer.h"
#include "quire/layout.h"

namespace quire::worker {

namespace {

/// Units that the budget held, summed over the steps and layers that a selection was made for.
uint64_t BudgetUnits(const RecallStats& recall, const RetrievalOptions& retrieval,
                     const KvSpec& spec) {
  const uint64_t fixed_pages = (retrieval.sink_tokens + retrieval.window_tokens) / spec.page_tokens;
  return recall.units_selected + recall.selections * fixed_pages * spec.num_kv_heads;
}

/// True if attention is sparser than the model's in some layer. Its keys and values then differ
/// from dense ones, and may not be shared.
bool LeavesOut(const RetrievalPolicy& policy, const KvSpec& spec) {
  return !std::ranges::all_of(LayoutsOf(policy, spec.num_layers), &CacheLayout::exact);
}

/// True if some layer attends token by token.
bool LacksPages(const RetrievalPolicy& policy, const KvSpec& spec) {
  return !std::ranges::all_of(LayoutsOf(policy, spec.num_layers), &CacheLayout::everything);
}

/// Dense attention over the tokens alone, whose hidden states `tap` sees.
class TappedCache final : public AttentionBackend {
 public:
  TappedCache(const EngineParts& parts, uint64_t tokens, HiddenTap* tap)
      : cache_(parts.decoder->config(), parts.device, tokens), tap_(tap) {}
  Status Attend(const LayerStep& step) override { return cache_.Attend(step); }
  HiddenTap* hidden_tap() override { return tap_; }

 private:
  DenseCache cache_;
  HiddenTap* const tap_;
};

}  // namespace

void AddRunStats(const RunStats& run, const RetrievalOptions& retrieval, const KvSpec& spec,
                 SequenceStats* stats) {
  const RecallStats& recall = run.recall;
  stats->moved += {.at_open = run.bytes_at_open,
                   .digests = run.bytes_digests,
                   .units = recall.bytes_moved,
                   .full = BudgetUnits(recall, retrieval, spec) * UnitBytes(spec)};
  stats->bytes_appended += run.bytes_appended;
  stats->units_landed += recall.units_landed;
  stats->units_from_host += recall.units_from_host;
  stats->units_hit += recall.units_selected - recall.units_missed - recall.units_from_host;
  stats->units_missed += recall.units_missed;
  stats->nan_scores += recall.nan_scores;
  stats->recalls += recall.recalls;
  stats->selections += recall.selections;
  stats->blocking_heads += recall.blocking_heads;
  stats->late_recalls += recall.late_prefetches + recall.late_corrections;
  stats->late_corrections += recall.late_corrections;
  stats->seconds_stalled += std::chrono::duration<double>(recall.stalled).count();
  stats->seconds_offload_waits += std::chrono::duration<double>(run.offload_waits).count();
}

StatusOr<std::unique_ptr<PagedRun>> PagedRun::Open(const EngineParts& parts,
                                                   const RetrievalOptions& retrieval,
                                                   const Document* document,
                                                   SessionSource* sessions, RunStats* stats) {
  auto run = std::unique_ptr<PagedRun>(new PagedRun(parts, retrieval, stats));
  QUIRE_ASSIGN_OR_RETURN(run->policy_, MakeSequencePolicy(parts, retrieval));
  QUIRE_RETURN_IF_ERROR(run->MakeCache());
  QUIRE_RETURN_IF_ERROR(run->OpenContext(document, LeavesOut(*run->policy_, *parts.spec)));
  if (document != nullptr) QUIRE_RETURN_IF_ERROR(run->LoadDocument(*document));
  run->host_pages_ = run->MakeHostPages();
  QUIRE_RETURN_IF_ERROR(run->TakeSeat(sessions));
  QUIRE_RETURN_IF_ERROR(run->LoadPolicy());
  QUIRE_RETURN_IF_ERROR(run->ShowDocument(document));
  run->Connect();
  return run;
}

bool PagedRun::MayBeDense(const EngineParts& parts, const RetrievalPolicy& policy,
                          bool has_document, uint64_t tokens) {
  const uint64_t least =
      has_document ? parts.question_chunk_tokens : uint64_t{parts.spec->page_tokens} + 1;
  return least > 0 && tokens >= least && LacksPages(policy, *parts.spec);
}

Status PagedRun::AttendDensely() {
  QUIRE_ASSIGN_OR_RETURN(after_prompt_, MakeSequencePolicy(parts_, retrieval_));
  QUIRE_ASSIGN_OR_RETURN(policy_, MakeDensePolicy(parts_));
  return OkStatus();
}

StatusOr<std::unique_ptr<PagedRun>> PagedRun::OpenDense(const EngineParts& parts,
                                                        const RetrievalOptions& retrieval,
                                                        const Document* document, RunStats* stats) {
  auto run = std::unique_ptr<PagedRun>(new PagedRun(parts, retrieval, stats));
  QUIRE_RETURN_IF_ERROR(run->AttendDensely());
  QUIRE_RETURN_IF_ERROR(run->MakeCache());
  // Pages appended once the budget holds go into the same context.
  QUIRE_RETURN_IF_ERROR(run->OpenContext(document, LeavesOut(*run->after_prompt_, *parts.spec)));
  if (document != nullptr) QUIRE_RETURN_IF_ERROR(run->LoadDocument(*document));
  QUIRE_RETURN_IF_ERROR(run->ShowDocument(document));
  run->host_pages_ = run->MakeHostPages();
  run->Connect();
  return run;
}

StatusOr<std::unique_ptr<PagedRun>> PagedRun::Densely(std::unique_ptr<PagedRun> run) {
  auto dense = std::unique_ptr<PagedRun>(new PagedRun(run->parts_, run->retrieval_, run->stats_));
  QUIRE_ASSIGN_OR_RETURN(SuspendedRun suspended, Suspend(std::move(run)));
  QUIRE_RETURN_IF_ERROR(dense->AttendDensely());
  // A policy that knows the tokens stays: they are not told again.
  if (suspended.policy->token_observer() != nullptr) {
    dense->after_prompt_ = std::move(suspended.policy);
  }
  QUIRE_RETURN_IF_ERROR(dense->Reload(&suspended));
  dense->host_pages_ = dense->MakeHostPages();
  dense->Connect();
  return dense;
}

StatusOr<std::unique_ptr<PagedRun>> PagedRun::WithinBudget(std::unique_ptr<PagedRun> dense,
                                                           SessionSource* sessions) {
  auto run =
      std::unique_ptr<PagedRun>(new PagedRun(dense->parts_, dense->retrieval_, dense->stats_));
  std::unique_ptr<BudgetCache> pages;
  QUIRE_ASSIGN_OR_RETURN(SuspendedRun suspended, Suspend(std::move(dense), &pages));
  run->policy_ = std::move(suspended.after_prompt);
  QUIRE_RETURN_IF_ERROR(run->Reload(&suspended, std::move(pages)));
  run->host_pages_ = run->MakeHostPages();
  QUIRE_RETURN_IF_ERROR(run->TakeSeat(sessions));
  QUIRE_RETURN_IF_ERROR(run->LoadPolicy());
  run->Connect();
  return run;
}

StatusOr<SuspendedRun> PagedRun::Suspend(std::unique_ptr<PagedRun> run,
                                         std::unique_ptr<BudgetCache>* cache) {
  SuspendedRun suspended;
  QUIRE_ASSIGN_OR_RETURN(suspended.lanes, run->pipeline_->Drain());
  QUIRE_ASSIGN_OR_RETURN(suspended.open_page, run->ExportOpenPage());
  QUIRE_RETURN_IF_ERROR(run->offloader_->Finish());
  suspended.num_tokens = run->num_tokens();
  suspended.unflushed = std::move(run->unflushed_);
  suspended.policy = std::move(run->policy_);
  suspended.after_prompt = std::move(run->after_prompt_);
  suspended.context = std::move(run->context_);
  suspended.host_pages = run->host_pages_;
  suspended.document = run->document_;
  if (cache != nullptr) *cache = std::move(run->cache_);
  return suspended;
}

StatusOr<std::unique_ptr<PagedRun>> PagedRun::Resume(const EngineParts& parts,
                                                     const RetrievalOptions& retrieval,
                                                     SuspendedRun suspended,
                                                     SessionSource* sessions, RunStats* stats) {
  auto run = std::unique_ptr<PagedRun>(new PagedRun(parts, retrieval, stats));
  run->policy_ = std::move(suspended.policy);
  run->after_prompt_ = std::move(suspended.after_prompt);
  run->host_pages_ = suspended.host_pages;
  QUIRE_RETURN_IF_ERROR(run->Reload(&suspended));
  QUIRE_RETURN_IF_ERROR(run->TakeSeat(sessions));
  run->Connect();
  QUIRE_RETURN_IF_ERROR(run->pipeline_->Restore(suspended.lanes));
  return run;
}

Status PagedRun::Reload(SuspendedRun* suspended, std::unique_ptr<BudgetCache> dense) {
  context_ = std::move(suspended->context);
  unflushed_ = std::move(suspended->unflushed);
  std::map<uint32_t, BudgetCache::Slots> kept;
  for (uint32_t layer = 0; dense != nullptr && layer < dense->num_layers(); ++layer) {
    if (IsWhole(layer)) kept[layer] = dense->GiveSlots(layer);
  }
  dense.reset();  // Other layers give their memory back before theirs is taken.
  QUIRE_RETURN_IF_ERROR(MakeCache());
  for (auto& [layer, slots] : kept) {
    QUIRE_RETURN_IF_ERROR(cache_->TakeSlots(layer, std::move(slots), suspended->num_tokens));
  }
  QUIRE_RETURN_IF_ERROR(cache_->StartAt(suspended->num_tokens));
  if (suspended->document) ShareDocument(*suspended->document);
  const auto complete = static_cast<uint32_t>(suspended->num_tokens / parts_.spec->page_tokens);
  for (uint32_t layer = 0; layer < cache_->num_layers(); ++layer) {
    if (kept.contains(layer)) continue;
    QUIRE_ASSIGN_OR_RETURN(
        const uint64_t bytes,
        LoadLayerPages(parts_, ContextRef(context_->id()), shared(), cache_.get(), layer,
                       cache_->table(layer).FixedPages(complete)));
    stats_->bytes_at_open += bytes;
  }
  return ImportOpenPage(std::move(suspended->open_page));
}

void PagedRun::ShareDocument(const DocumentPages& document) {
  document_ = document;
  shared_.emplace(parts_.shares, document);
}

HostPages PagedRun::MakeHostPages() const {
  return {parts_.host_tier, document_.value_or(DocumentPages()), context_->id(),
          policy_->recalled_part()};
}

void PagedRun::Connect() {
  pipeline_.emplace(
      RecallPipeline::Dependencies{.channel = seat_ == nullptr ? nullptr : &seat_->channel(),
                                   .cache = cache_.get(),
                                   .policy = policy_.get(),
                                   .device = parts_.device,
                                   .clock = parts_.clock,
                                   .options = &retrieval_,
                                   .stats = &stats_->recall,
                                   .host = host_pages_,
                                   .executor = parts_.recall_executor});
  offloader_.emplace(parts_, policy_->page_observer(), context_->id(), &stats_->offload_waits);
  backend_.emplace(cache_.get(), &*pipeline_, &*offloader_, own_policy().hidden_tap());
}

PagedRun::~PagedRun() {
  // Others may find these pages; private ones go with the context, and need not be sent.
  const bool suspended = context_ == nullptr;
  if (offloader_ && !suspended && !context_->private_pages()) (void)offloader_->Finish();
  pipeline_.reset();  // Cancels recalls in flight.
  seat_.reset();
}

void PagedRun::AwaitInFlight() {
  // Drain also waits for recalls that failed.
  (void)pipeline_->Drain();
}

void PagedRun::Lose() {
  if (seat_ != nullptr) seat_->Lose();
}

bool PagedRun::IsWhole(uint32_t layer) const {
  return parts_.slot_memory != nullptr && parts_.slot_memory->IsWhole(layer) &&
         policy_->Layout(layer).selects() && MayBeWhole(*policy_, retrieval_);
}

Status PagedRun::PlaceLayers() {
  for (uint32_t layer = 0; layer < cache_->num_layers(); ++layer) {
    const bool whole = IsWhole(layer);
    if (whole == cache_->table(layer).layout().whole) continue;
    if (!whole) {
      QUIRE_RETURN_IF_ERROR(pipeline_->LeaveDevice(layer));
      continue;
    }
    const PageRange candidates = cache_->table(layer).candidates();
    QUIRE_RETURN_IF_ERROR(pipeline_->MakeWhole(layer));
    std::vector<uint32_t> pages(candidates.size());
    std::iota(pages.begin(), pages.end(), candidates.first);
    QUIRE_ASSIGN_OR_RETURN(const uint64_t bytes,
                           LoadLayerPages(parts_, ContextRef(context_->id()), shared(),
                                          cache_.get(), layer, std::move(pages)));
    stats_->bytes_at_open += bytes;
  }
  return OkStatus();
}

Status PagedRun::MakeCache() {
  std::vector<CacheLayout> layouts = LayoutsOf(*policy_, parts_.spec->num_layers);
  for (uint32_t layer = 0; layer < layouts.size(); ++layer) layouts[layer].whole = IsWhole(layer);
  QUIRE_ASSIGN_OR_RETURN(cache_, BudgetCache::Create(*parts_.spec, parts_.device, layouts,
                                                     retrieval_.recall_buffers, SoftCapOf(parts_)));
  cache_->ShareStaging(parts_.staging);
  return OkStatus();
}

Status PagedRun::OpenContext(const Document* document, bool private_pages) {
  std::optional<ContextRef> continues;
  ContextOptions options{.private_pages = private_pages};
  if (document != nullptr) {
    continues = ContextRef(document->chain_tip);
    options.collection = document->name.collection;  // Appended pages are kept as the document is.
    options.question_about = document->name;
  }
  const StatusOr<OpenedContext> reply =
      parts_.client->OpenContext(*parts_.spec, continues, options);
  if (!reply.ok()) {
    return document == nullptr ? reply.status()
                               : Annotate(reply.status(), "document ", document->name.name);
  }
  const OpenedContext& opened = *reply;
  context_ = std::make_unique<OwnedContext>(parts_.client, opened, private_pages);
  const uint32_t p = parts_.spec->page_tokens;
  const uint64_t expected = document == nullptr ? 0 : document->num_tokens / p * p;
  if (opened.num_tokens == expected) return OkStatus();
  return DataLoss("the server continues the document at token ", opened.num_tokens,
                  "; its complete pages end at ", expected);
}

Status PagedRun::LoadDocument(const Document& document) {
  QUIRE_RETURN_IF_ERROR(cache_->StartAt(document.num_tokens));
  const uint32_t p = parts_.spec->page_tokens;
  ShareDocument({.tip = document.chain_tip,
                 .num_pages = static_cast<uint32_t>(document.num_tokens / p),
                 .incarnation = context_->incarnation()});
  QUIRE_ASSIGN_OR_RETURN(
      const uint64_t bytes,
      LoadFixedPages(parts_, ContextRef(document.chain_tip), shared(), cache_.get()));
  stats_->bytes_at_open += bytes;
  shared_->Offer(cache_.get());
  const uint64_t tail = document.num_tokens % p;
  if (tail == 0) return OkStatus();
  QUIRE_ASSIGN_OR_RETURN(unflushed_, ReadTailTokens(parts_, document.chain_tip));
  if (unflushed_.size() == tail) return OkStatus();
  return DataLoss("the document's last page has ", tail, " tokens, the server names ",
                  unflushed_.size());
}

Status PagedRun::TakeSeat(SessionSource* sessions) {
  LaneShape shape{.part = policy_->recalled_part()};
  shape.codecs = RecalledCodecs(retrieval_.recall_layout, shape.part);
  for (uint32_t layer = 0; layer < cache_->num_layers(); ++layer) {
    const uint32_t slots = cache_->table(layer).layout().selectable_pages;
    if (slots == 0) continue;
    shape.layers.push_back(layer);
    shape.slots_per_head = std::max(shape.slots_per_head, slots);
  }
  if (shape.layers.empty()) return OkStatus();
  if (retrieval_.side == SelectionSide::kServer) shape.held_digests = retrieval_.digest;
  QUIRE_ASSIGN_OR_RETURN(seat_, sessions->Seat(ContextRef(context_->id()), shape));
  return OkStatus();
}

Status PagedRun::LoadPolicy() {
  PageObserver* const observer = policy_->page_observer();
  if (observer == nullptr) return OkStatus();
  const auto complete = static_cast<uint32_t>(num_tokens() / parts_.spec->page_tokens);
  // Others have the digests of the document's pages alone.
  const bool more = document_ && document_->num_pages < complete;
  QUIRE_ASSIGN_OR_RETURN(
      const uint64_t bytes,
      LoadDigests(parts_, seat_.get(), more ? nullptr : shared(), complete, observer));
  stats_->bytes_digests += bytes;
  QUIRE_ASSIGN_OR_RETURN(const uint64_t unit_bytes,
                         LoadUnits(parts_, ContextRef(context_->id()), complete, observer));
  stats_->bytes_at_open += unit_bytes;
  return OkStatus();
}

StatusOr<std::vector<std::byte>> PagedRun::ExportOpenPage() const {
  std::vector<std::byte> units;
  const uint32_t p = parts_.spec->page_tokens;
  const auto rows = static_cast<uint32_t>(num_tokens() % p);
  if (rows == 0) return units;
  PageExporter exporter(parts_);
  QUIRE_ASSIGN_OR_RETURN(
      const std::shared_ptr<UnitBuffer> page,
      exporter.ExportNow(*cache_, static_cast<uint32_t>(num_tokens() / p), rows));
  units.assign(page->bytes.get(), page->bytes.get() + exporter.page_bytes());
  return units;
}

Status PagedRun::ImportOpenPage(std::vector<std::byte> units) {
  if (units.empty()) return OkStatus();
  const auto page = static_cast<uint32_t>(num_tokens() / parts_.spec->page_tokens);
  const uint64_t layer_bytes = ExtentBytes(*parts_.spec, 1);
  const auto owner = std::make_shared<const std::vector<std::byte>>(std::move(units));
  for (uint32_t layer = 0; layer < cache_->num_layers(); ++layer) {
    Payload payload;
    payload.Append(Slice{std::span(*owner).subspan(layer * layer_bytes, layer_bytes), owner});
    QUIRE_RETURN_IF_ERROR(cache_->FillFixed(layer, {&page, 1}, payload));
  }
  return OkStatus();
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

Status PagedRun::ShowDocument(const Document* document) {
  TokenObserver* const observer = own_policy().token_observer();
  if (observer == nullptr || document == nullptr) return OkStatus();
  QUIRE_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens,
                         parts_.client->ReadTokens(ContextRef(document->chain_tip)));
  if (tokens.size() != document->num_tokens) {
    return DataLoss("the document has ", document->num_tokens, " tokens, the server names ",
                    tokens.size());
  }
  stats_->bytes_at_open += tokens.size() * sizeof(TokenId);
  const auto run = [&] {
    observer->OnTokens(tokens);
    HiddenTap* const tap = own_policy().hidden_tap();
    return tap == nullptr ? OkStatus() : ComputeHidden(tokens, tap);
  };
  RetrievalHead* const head = own_policy().retrieval_head();
  if (head == nullptr) return run();
  QUIRE_ASSIGN_OR_RETURN(
      const uint64_t bytes,
      ShowHeadDocument(parts_, document->name, tokens,
                       {.head = head, .features = own_policy().draft_features(), .run = run}));
  stats_->bytes_at_open += bytes;
  return OkStatus();
}

Status PagedRun::ComputeHidden(std::span<const TokenId> tokens, HiddenTap* tap) const {
  TappedCache cache(parts_, tokens.size(), tap);
  for (size_t at = 0; at < tokens.size();) {
    const size_t count = std::min<size_t>(parts_.prefill_chunk_tokens, tokens.size() - at);
    QUIRE_RETURN_IF_ERROR(parts_.decoder->Forward(tokens.subspan(at, count), at, cache,
                                                  Decoder::Logits::kNone, nullptr));
    at += count;
  }
  return OkStatus();
}

void PagedRun::BeginStep(std::span<const TokenId> tokens) {
  for (RetrievalPolicy* const policy : {policy_.get(), after_prompt_.get()}) {
    TokenObserver* const observer = policy != nullptr ? policy->token_observer() : nullptr;
    if (observer != nullptr) observer->OnTokens(tokens);
  }
}

Status PagedRun::Forward(std::span<const TokenId> tokens, Decoder::Logits what, float* logits) {
  BeginStep(tokens);
  QUIRE_RETURN_IF_ERROR(parts_.decoder->Forward(tokens, num_tokens(), *backend_, what, logits));
  return OnStepDone(tokens);
}

Status PagedRun::OnStepDone(std::span<const TokenId> tokens) {
  unflushed_.insert(unflushed_.end(), tokens.begin(), tokens.end());
  QUIRE_RETURN_IF_ERROR(pipeline_->FlushDeferred());
  QUIRE_ASSIGN_OR_RETURN(const Duration held, cache_->TakeHeld());
  stats_->recall.stalled += held;
  return Flush();
}

Status PagedRun::Flush() {
  const size_t complete = size_t{offloader_->pending().size()} * parts_.spec->page_tokens;
  QUIRE_ASSIGN_OR_RETURN(const uint64_t bytes,
                         offloader_->Flush(std::span(unflushed_).first(complete)));
  stats_->bytes_appended += bytes;
  unflushed_.erase(unflushed_.begin(), unflushed_.begin() + static_cast<ptrdiff_t>(complete));
  return OkStatus();
}

}  // namespace quire::worker
