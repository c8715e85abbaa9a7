// SPDX-License-Identifier: Apache-2.0
//
// FakeStore's sessions: resident maps, pending until acknowledged.
#include <algorithm>
#include <set>
#include <utility>

#include "common/page/layout.h"
#include "common/wire/convert.h"
#include "common/wire/convert_context.h"
#include "gpuworker/testing/fake_store.h"

namespace quire::worker::testing {

Status FakeStore::OpenSession(const v1::OpenSessionRequest& request, v1::OpenSessionReply* reply) {
  QUIRE_ASSIGN_OR_RETURN(const Pages* pages, Find(request.context()));
  SessionState session{.context = request.context().open_context(),
                       .sealed = {},
                       .slots = request.slots_per_head(),
                       .committed = {},
                       .pending = {}};
  if (session.context == 0) session.sealed = *pages;
  session.committed.resize(size_t{pages->spec.num_layers} * pages->spec.num_kv_heads *
                           session.slots);
  session.pending = session.committed;
  ContextInfo info{.spec = pages->spec,
                   .num_tokens = pages->tokens.size(),
                   .num_pages = static_cast<uint32_t>(pages->pages.size()),
                   .segment_keys = {},
                   .chain_tip = {}};
  if (session.context == 0) {
    info.segment_keys = ChainKeys(kFakeSalt, pages->spec, pages->tokens);
    info.chain_tip = info.segment_keys.back();
  }
  wire::ContextInfoToProto(info, reply->mutable_context());
  const size_t whole = pages->tokens.size() / pages->spec.page_tokens * pages->spec.page_tokens;
  for (size_t i = whole; i < pages->tokens.size(); ++i) reply->add_tail_tokens(pages->tokens[i]);
  reply->set_session_id(next_id_);
  reply->set_epoch(session.epoch);
  sessions_[next_id_++] = std::move(session);
  return OkStatus();
}

StatusOr<FakeStore::SessionState*> FakeStore::FindSession(uint64_t id) {
  const auto it = sessions_.find(id);
  if (it == sessions_.end()) return NotFound("no such session");
  if (it->second.context != 0 && !contexts_.contains(it->second.context)) {
    return NotFound("the session's context is gone");
  }
  return &it->second;
}

const FakeStore::Pages& FakeStore::PagesOf(const SessionState& session) const {
  return session.context == 0 ? session.sealed : contexts_.at(session.context);
}

Status FakeStore::Recall(const v1::RecallRequest& request, v1::RecallReply* reply,
                         std::string* payload) {
  QUIRE_ASSIGN_OR_RETURN(SessionState * session, FindSession(request.session_id()));
  if (request.epoch() != session->epoch) return FailedPrecondition("stale epoch");
  if (request.acked_sequence() == session->sequence + 1) {
    session->committed = session->pending;
    ++session->sequence;
  }
  if (request.sequence() != session->sequence + 1) return FailedPrecondition("stale sequence");
  session->pending = session->committed;
  reply->set_sequence(request.sequence());
  reply->set_epoch(request.epoch());
  for (const v1::LayerRecall& layer : request.layers()) {
    v1::LayerPlacement* placed = reply->add_layers();
    placed->set_layer(layer.layer());
    for (int head = 0; head < layer.units().heads_size(); ++head) {
      QUIRE_RETURN_IF_ERROR(RecallHead(PagesOf(*session), *session, layer.layer(),
                                       static_cast<uint32_t>(head), layer.units().heads(head),
                                       placed->add_heads(), reply, payload));
    }
  }
  return OkStatus();
}

Status FakeStore::RecallHead(const Pages& pages, SessionState& session, uint32_t layer,
                             uint32_t head, const v1::HeadPages& want, v1::HeadPlacement* placed,
                             v1::RecallReply* reply, std::string* payload) {
  const size_t first = (size_t{layer} * pages.spec.num_kv_heads + head) * session.slots;
  const std::span<Slot> slots = std::span(session.pending).subspan(first, session.slots);
  const std::set<int32_t> wanted(want.pages().begin(), want.pages().end());
  std::set<int32_t> resident;
  for (const Slot& slot : slots) resident.insert(slot.page);
  for (int32_t page : wanted) {
    if (resident.contains(page)) continue;
    if (static_cast<size_t>(page) >= pages.pages.size()) return InvalidArgument("no page ", page);
    const auto victim = std::find_if(slots.begin(), slots.end(),
                                     [&](const Slot& slot) { return !wanted.contains(slot.page); });
    placed->add_slots(static_cast<uint32_t>(victim - slots.begin()));
    placed->add_pages(static_cast<uint32_t>(page));
    placed->add_replaced(victim->page);
    placed->add_generations(++victim->generation);
    victim->page = page;
    const std::string unit =
        UnitOf(pages.spec, pages.pages[static_cast<size_t>(page)], layer, head);
    reply->add_unit_crc32c(UnitChecksum(unit));
    *payload += unit;
  }
  return OkStatus();
}

Status FakeStore::Resync(const v1::ResyncRequest& request) {
  QUIRE_ASSIGN_OR_RETURN(SessionState * session, FindSession(request.session_id()));
  if (request.epoch() <= session->epoch) return FailedPrecondition("stale epoch");
  const uint32_t heads = PagesOf(*session).spec.num_kv_heads;
  for (const v1::LayerMap& layer : request.layers()) {
    for (int head = 0; head < layer.heads_size(); ++head) {
      const size_t first =
          (size_t{layer.layer()} * heads + static_cast<size_t>(head)) * session->slots;
      for (uint32_t i = 0; i < session->slots; ++i) {
        session->committed[first + i] = {layer.heads(head).pages(static_cast<int>(i)),
                                         layer.heads(head).generations(static_cast<int>(i))};
      }
    }
  }
  session->pending = session->committed;
  session->epoch = request.epoch();
  session->sequence = request.sequence();
  return OkStatus();
}

Status FakeStore::Digests(const v1::DigestsRequest& request, std::string* payload) {
  QUIRE_ASSIGN_OR_RETURN(SessionState * session, FindSession(request.session_id()));
  const Pages& pages = PagesOf(*session);
  const KvSpec& spec = pages.spec;
  for (uint32_t layer : request.layers()) {
    for (uint32_t page = request.first_page(); page < request.end_page(); ++page) {
      for (uint32_t head = 0; head < spec.num_kv_heads; ++head) {
        const std::string unit = UnitOf(spec, pages.pages.at(page), layer, head);
        const auto* keys = reinterpret_cast<const float*>(unit.data());
        std::vector<float> lo(keys, keys + spec.head_dim);
        std::vector<float> hi = lo;
        for (uint32_t i = 0; i < spec.page_tokens * spec.head_dim; ++i) {
          lo[i % spec.head_dim] = std::min(lo[i % spec.head_dim], keys[i]);
          hi[i % spec.head_dim] = std::max(hi[i % spec.head_dim], keys[i]);
        }
        payload->append(reinterpret_cast<const char*>(lo.data()), lo.size() * sizeof(float));
        payload->append(reinterpret_cast<const char*>(hi.data()), hi.size() * sizeof(float));
      }
    }
  }
  return OkStatus();
}

}  // namespace quire::worker::testing
