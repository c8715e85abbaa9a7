// SPDX-License-Identifier: Apache-2.0
#include "kvserver/session/session.h"

#include <algorithm>

#include "common/page/layout.h"

namespace quire::kvserver {
namespace {

Status TooLarge(std::string_view what, uint64_t bytes, uint64_t limit) {
  return ResourceExhausted(what, " take ", bytes, " bytes, more than the ", limit,
                           " of one reply: ask for fewer layers or pages at a time");
}

}  // namespace

Session::Session(SessionShared* shared, ReadableContext context, Options options)
    : shared_(*shared),
      context_(std::move(context)),
      options_(std::move(options)),
      layer_index_(context_.view()->spec->num_layers, -1),
      map_(static_cast<uint32_t>(options_.managed_layers.size()),
           context_.view()->spec->num_kv_heads, options_.slots_per_head) {
  for (size_t i = 0; i < options_.managed_layers.size(); ++i) {
    layer_index_[options_.managed_layers[i]] = static_cast<int32_t>(i);
  }
}

uint64_t Session::epoch() const {
  MutexLock lock(mutex_);
  return exchanges_.epoch();
}

StatusOr<RecallAnswer> Session::Recall(const RecallArgs& args) {
  QUIRE_ASSIGN_OR_RETURN(const TurnLimit::Turn turn, turns_.Take());
  MutexLock lock(mutex_);
  const ContextViewPtr view = context_.view();
  QUIRE_RETURN_IF_ERROR(Check(*view, args));
  QUIRE_ASSIGN_OR_RETURN(const ExchangeState::Previous previous,
                         exchanges_.Recall(args.epoch, args.sequence, args.acked_sequence,
                                           args.layers == last_wants_));
  Settle(previous);
  last_wants_ = args.layers;
  StatusOr<RecallAnswer> answer = Answer(view, args);
  if (!answer.ok()) {
    map_.Rollback();
    exchanges_.Abandon();
    return answer.status();
  }
  shared_.recalls.Add();
  shared_.units_sent.Add(answer->units.size());
  return answer;
}

Status Session::Ack(uint64_t epoch, uint64_t sequence) {
  QUIRE_ASSIGN_OR_RETURN(const TurnLimit::Turn turn, turns_.Take());
  MutexLock lock(mutex_);
  QUIRE_ASSIGN_OR_RETURN(const ExchangeState::Previous previous, exchanges_.Ack(epoch, sequence));
  Settle(previous);
  return OkStatus();
}

void Session::Settle(ExchangeState::Previous previous) {
  if (previous == ExchangeState::Previous::kCommit) map_.Commit();
  if (previous == ExchangeState::Previous::kRollBack) map_.Rollback();
}

Status Session::Check(const ContextView& view, const RecallArgs& args) const {
  std::vector<bool> seen(view.spec->num_layers);
  for (const LayerWant& want : args.layers) {
    if (want.layer >= seen.size() || layer_index_[want.layer] < 0) {
      return InvalidArgument("layer ", want.layer, " is not managed by the session");
    }
    if (seen[want.layer]) return InvalidArgument("layer ", want.layer, " is asked for twice");
    seen[want.layer] = true;
    QUIRE_RETURN_IF_ERROR(Annotate(CheckWant(view, want), "layer ", want.layer));
  }
  return OkStatus();
}

Status Session::CheckWant(const ContextView& view, const LayerWant& want) const {
  if (want.query) {
    const uint32_t num_pages = view.num_pages();
    QUIRE_RETURN_IF_ERROR(Selector::Check(*view.spec, *want.query, std::span(&num_pages, 1)));
    const uint64_t candidates = NumCandidates(*want.query);
    if (std::min<uint64_t>(want.query->num_pages, candidates) <= options_.slots_per_head)
      return OkStatus();
    return InvalidArgument("num_pages is ", want.query->num_pages, ": there are ",
                           options_.slots_per_head, " slots per head");
  }
  if (want.pages.size() != view.spec->num_kv_heads) {
    return InvalidArgument("pages of ", want.pages.size(), " heads: the model has ",
                           view.spec->num_kv_heads, " KV heads");
  }
  for (const std::vector<uint32_t>& pages : want.pages) {
    if (pages.size() > options_.slots_per_head) {
      return InvalidArgument(pages.size(), " pages for a head: there are ", options_.slots_per_head,
                             " slots per head");
    }
    if (!pages.empty() && pages.back() >= view.num_pages()) {
      return InvalidArgument("page ", pages.back(), ": the context has ", view.num_pages());
    }
  }
  return OkStatus();
}

StatusOr<RecallAnswer> Session::Answer(const ContextViewPtr& view, const RecallArgs& args) {
  RecallAnswer answer;
  std::vector<UnitRef> refs;
  map_.StartRecall();
  for (const LayerWant& want : args.layers) {
    QUIRE_ASSIGN_OR_RETURN(std::vector<std::vector<uint32_t>> pages, SelectPages(*view, want));
    LayerPlacement& layer = answer.layers.emplace_back();
    layer.layer = want.layer;
    const auto index = static_cast<uint32_t>(layer_index_[want.layer]);
    for (uint32_t head = 0; head < pages.size(); ++head) {
      layer.heads.push_back(map_.Plan(index, head, pages[head]));
      for (const Placement& p : layer.heads.back()) refs.push_back({want.layer, p.page, head});
      shared_.units_wanted.Add(pages[head].size());
    }
    if (want.query) layer.selected = std::move(pages);
  }
  const uint64_t bytes = refs.size() * quire::UnitBytes(*view->spec);
  if (bytes > shared_.max_reply_bytes) {
    return TooLarge("the missing units", bytes, shared_.max_reply_bytes);
  }
  QUIRE_RETURN_IF_ERROR(ReadUnits(*shared_.store, options_.tenant, view, refs, &answer.units));
  return answer;
}

StatusOr<std::vector<std::vector<uint32_t>>> Session::SelectPages(const ContextView& view,
                                                                  const LayerWant& want) const {
  if (!want.query) return want.pages;
  const PageQuery& query = *want.query;
  std::vector<DigestBlocks> digests;
  if (!Selector::TakesAll(query)) {
    for (const CandidateRange& range : query.ranges) {
      QUIRE_ASSIGN_OR_RETURN(DigestBlocks blocks,
                             ReadDigests(*shared_.store, options_.tenant, view, want.layer,
                                         range.first_page, range.end_page));
      digests.push_back(std::move(blocks));
    }
  }
  PageLists selected;
  QUIRE_RETURN_IF_ERROR(shared_.selector->Select(*view.spec, query, digests, &selected));
  std::vector<std::vector<uint32_t>> pages(selected.num_heads());
  for (uint32_t head = 0; head < pages.size(); ++head) {
    pages[head].assign(selected.Head(head).begin(), selected.Head(head).end());
  }
  return pages;
}

Status Session::Resync(uint64_t epoch, uint64_t sequence, std::span<const LayerSlots> layers) {
  QUIRE_ASSIGN_OR_RETURN(const TurnLimit::Turn turn, turns_.Take());
  MutexLock lock(mutex_);
  QUIRE_RETURN_IF_ERROR(exchanges_.CheckResync(epoch));
  const uint32_t num_pages = context_.view()->num_pages();
  std::vector<bool> seen(layer_index_.size());
  for (const LayerSlots& layer : layers) {
    if (layer.layer >= seen.size() || layer_index_[layer.layer] < 0 || seen[layer.layer]) {
      return InvalidArgument("layer ", layer.layer, " is not managed by the session, or twice");
    }
    seen[layer.layer] = true;
    QUIRE_RETURN_IF_ERROR(Annotate(CheckSlots(layer, num_pages), "layer ", layer.layer));
  }
  if (layers.size() != options_.managed_layers.size()) {
    return InvalidArgument("the map has ", layers.size(), " layers: the session manages ",
                           options_.managed_layers.size());
  }
  map_.Rollback();
  for (const LayerSlots& layer : layers) {
    const auto index = static_cast<uint32_t>(layer_index_[layer.layer]);
    for (uint32_t head = 0; head < layer.pages.size(); ++head) {
      map_.Replace(index, head, layer.pages[head], layer.generations[head]);
    }
  }
  exchanges_.Resync(epoch, sequence);
  shared_.resyncs.Add();
  return OkStatus();
}

Status Session::CheckSlots(const LayerSlots& layer, uint32_t num_pages) const {
  const uint32_t num_heads = context_.view()->spec->num_kv_heads;
  if (layer.pages.size() != num_heads || layer.generations.size() != num_heads) {
    return InvalidArgument("slots of ", layer.pages.size(), " heads: the model has ", num_heads);
  }
  for (uint32_t head = 0; head < num_heads; ++head) {
    std::vector<int32_t> pages = layer.pages[head];
    if (pages.size() != options_.slots_per_head ||
        layer.generations[head].size() != options_.slots_per_head) {
      return InvalidArgument("head ", head, " has ", pages.size(), " slots: the session has ",
                             options_.slots_per_head, " per head");
    }
    std::erase(pages, -1);
    std::sort(pages.begin(), pages.end());
    const bool twice = std::adjacent_find(pages.begin(), pages.end()) != pages.end();
    const bool outside =
        !pages.empty() && (pages.front() < 0 || static_cast<uint32_t>(pages.back()) >= num_pages);
    if (twice || outside) {
      return InvalidArgument("head ", head, " holds a page twice, or one outside the context's ",
                             num_pages);
    }
  }
  return OkStatus();
}

StatusOr<Payload> Session::Digests(std::span<const uint32_t> layers, uint32_t first_page,
                                   uint32_t end_page) const {
  const ContextViewPtr view = context_.view();
  const KvSpec& spec = *view->spec;
  if (first_page > end_page || end_page > view->num_pages()) {
    return InvalidArgument("pages [", first_page, ", ", end_page, ") are not inside the context's ",
                           view->num_pages(), " pages");
  }
  if (layers.size() > spec.num_layers) {
    return InvalidArgument(layers.size(), " layers: the model has ", spec.num_layers);
  }
  const uint64_t bytes = layers.size() * (end_page - first_page) * PageDigestBytes(spec);
  if (bytes > shared_.max_reply_bytes) {
    return TooLarge("the digests", bytes, shared_.max_reply_bytes);
  }
  Payload payload;
  for (const uint32_t layer : layers) {
    if (layer >= spec.num_layers) {
      return InvalidArgument("layer ", layer, ": the model has ", spec.num_layers);
    }
    if (first_page == end_page) continue;
    QUIRE_ASSIGN_OR_RETURN(
        const DigestBlocks blocks,
        ReadDigests(*shared_.store, options_.tenant, *view, layer, first_page, end_page));
    blocks.AppendTo(first_page, end_page, &payload);
  }
  return payload;
}

}  // namespace quire::kvserver
