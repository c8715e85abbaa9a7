// SPDX-License-Identifier: Apache-2.0
//
// FakeStore's sessions: resident maps of lanes, pending until acknowledged.
#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "common/wire/convert.h"
#include "common/wire/convert_context.h"
#include "common/wire/lane_records.h"
#include "common/wire/unit_list.h"
#include "gpuworker/context/statistics/layer_statistics.h"
#include "gpuworker/testing/fake_store.h"
#include "kernels/api/page_digest.h"
#include "kernels/cpu/cpu_kernels.h"
#include "quire/layout.h"
#include "quire/page_lists.h"
#include "quire/page_name.h"

namespace quire::worker::testing {

Status FakeStore::OpenSequence(const v1::SequenceSpec& spec, uint32_t slots,
                               SequenceState* sequence, v1::OpenedSequence* opened) {
  for (const v1::SequenceMember& member : spec.members()) {
    QUIRE_RETURN_IF_ERROR(AddMember(member.context(), sequence, opened));
  }
  const KvSpec& pages = PagesOf(*sequence).spec;
  if (spec.slots_per_head() > slots) return InvalidArgument("more slots than the session's");
  sequence->slots = spec.slots_per_head() == 0 ? slots : spec.slots_per_head();
  const Map empty(size_t{pages.num_kv_heads} * sequence->slots);
  sequence->lanes.assign(pages.num_layers, {.committed = empty, .pending = empty});
  return OkStatus();
}

Status FakeStore::AddMember(const v1::ContextRef& context, SequenceState* sequence,
                            v1::OpenedSequence* opened) {
  QUIRE_ASSIGN_OR_RETURN(const Pages* pages, Find(context));
  ContextInfo info{.spec = pages->spec,
                   .num_tokens = pages->tokens.size(),
                   .num_pages = static_cast<uint32_t>(pages->pages.size()),
                   .segment_keys = {},
                   .chain_tip = {}};
  const bool is_first = opened->members_size() == 0;
  if (context.open_context() != 0) {
    if (!is_first) return Unimplemented("an open context behind another one");
    sequence->context = context.open_context();
  } else {
    (is_first ? sequence->sealed : sequence->others.emplace_back()) = *pages;
    info.segment_keys = ChainKeys(kFakeSalt, pages->spec, pages->tokens);
    info.chain_tip = info.segment_keys.back();
  }
  v1::OpenedMember& member = *opened->add_members();
  wire::ContextInfoToProto(info, member.mutable_context());
  const size_t whole = pages->tokens.size() / pages->spec.page_tokens * pages->spec.page_tokens;
  for (size_t i = whole; i < pages->tokens.size(); ++i) member.add_tail_tokens(pages->tokens[i]);
  return OkStatus();
}

Status FakeStore::OpenSession(const v1::OpenSessionRequest& request, v1::OpenSessionReply* reply) {
  SessionState session{.slots = request.slots_per_head(), .sequences = {}};
  if (request.unit_part() == v1::UNIT_PART_VALUES) session.part = UnitPart::kValues;
  for (const v1::SequenceSpec& spec : request.sequences()) {
    QUIRE_RETURN_IF_ERROR(OpenSequence(spec, session.slots, &session.sequences.emplace_back(),
                                       reply->add_sequences()));
  }
  reply->set_session_id(next_id_);
  reply->set_epoch(session.epoch);
  sessions_[next_id_++] = std::move(session);
  return OkStatus();
}

Status FakeStore::AddSequence(const v1::AddSequenceRequest& request, v1::AddSequenceReply* reply) {
  QUIRE_ASSIGN_OR_RETURN(SessionState * session, FindSession(request.session_id()));
  uint32_t number = 0;
  while (number < session->sequences.size() && session->sequences[number].present) ++number;
  SequenceState added;
  QUIRE_RETURN_IF_ERROR(
      OpenSequence(request.sequence(), session->slots, &added, reply->mutable_opened()));
  if (number == session->sequences.size()) session->sequences.emplace_back();
  session->sequences[number] = std::move(added);
  reply->set_sequence(number);
  return OkStatus();
}

Status FakeStore::RemoveSequence(const v1::RemoveSequenceRequest& request) {
  QUIRE_ASSIGN_OR_RETURN(SessionState * session, FindSession(request.session_id()));
  session->sequences.at(request.sequence()).present = false;
  return OkStatus();
}

StatusOr<FakeStore::SessionState*> FakeStore::FindSession(uint64_t id) {
  const auto it = sessions_.find(id);
  if (it == sessions_.end()) return NotFound("no such session");
  return &it->second;
}

StatusOr<FakeStore::SequenceState*> FakeStore::FindSequence(SessionState* session,
                                                            uint32_t number) {
  if (number >= session->sequences.size() || !session->sequences[number].present) {
    return NotFound("the session has no sequence ", number);
  }
  SequenceState& sequence = session->sequences[number];
  if (sequence.context != 0 && !contexts_.contains(sequence.context)) {
    return NotFound("the sequence's context is gone");
  }
  return &sequence;
}

const FakeStore::Pages& FakeStore::PagesOf(const SequenceState& sequence, uint32_t member) const {
  if (member > 0) return sequence.others.at(member - 1);
  return sequence.context == 0 ? sequence.sealed : contexts_.at(sequence.context);
}

Status FakeStore::Recall(const v1::RecallRequest& request, v1::RecallReply* reply,
                         std::string* payload) {
  for (const v1::SequenceMismatch& sequence : request.mismatched()) {
    mismatched_units_ += static_cast<uint64_t>(sequence.units_size());
  }
  QUIRE_ASSIGN_OR_RETURN(SessionState * session, FindSession(request.session_id()));
  if (request.epoch() != session->epoch) return FailedPrecondition("stale epoch");
  reply->set_exchange(request.exchange());
  reply->set_epoch(request.epoch());
  for (const v1::LayerWant& want : request.wants()) {
    QUIRE_ASSIGN_OR_RETURN(SequenceState * found, FindSequence(session, want.sequence()));
    SequenceState& sequence = *found;
    for (int i = 0; i < want.applied_size(); ++i) {
      const uint32_t layer = want.first_layer() + static_cast<uint32_t>(i);
      LaneState& lane = sequence.lanes.at(layer);
      if (want.applied(i) == lane.pending_exchange) {
        lane.committed = lane.pending;
        lane.committed_exchange = lane.pending_exchange;
      }
      if (want.applied(i) != lane.committed_exchange ||
          request.exchange() <= lane.pending_exchange) {
        return FailedPrecondition("out of order");
      }
      lane.pending = lane.committed;
      lane.pending_exchange = request.exchange();
      v1::LanePlacement& placed = *reply->add_lanes();
      placed.set_sequence(want.sequence());
      placed.set_layer(layer);
      QUIRE_RETURN_IF_ERROR(RecallLane(*session, sequence, want, &lane.pending, &placed, payload));
    }
  }
  return OkStatus();
}

Status FakeStore::RecallWithPlaces(const std::string& control, CallMessage* reply) {
  places_.clear();
  v1::RecallRequest request;
  if (!request.ParseFromString(control)) return InvalidArgument("malformed request");
  v1::RecallReply answer;
  std::string units;
  QUIRE_RETURN_IF_ERROR(Recall(request, &answer, &units));
  reply->control = answer.SerializeAsString();
  const auto bytes = std::as_bytes(std::span(units.data(), units.size()));
  for (size_t i = 0; i < places_.size(); ++i) {
    const auto unit =
        bytes.subspan(i * bytes.size() / places_.size(), bytes.size() / places_.size());
    reply->payload.Append(std::vector<std::byte>(unit.begin(), unit.end()));
  }
  if (request.place()) reply->places = places_;
  return OkStatus();
}

Status FakeStore::RecallLane(const SessionState& session, const SequenceState& sequence,
                             const v1::LayerWant& want, Map* map, v1::LanePlacement* placed,
                             std::string* payload) {
  const Pages& pages = PagesOf(sequence);
  const uint32_t num_slots = sequence.slots;
  PageLists lists;
  PageLists held;
  held.Reset(pages.spec.num_kv_heads);
  QUIRE_RETURN_IF_ERROR(
      wire::DecodeUnitList(want.units(), pages.spec.num_kv_heads, num_slots, &lists));
  if (!want.held().empty()) {
    QUIRE_RETURN_IF_ERROR(
        wire::DecodeUnitList(want.held(), pages.spec.num_kv_heads, num_slots, &held));
  }
  wire::LaneUnits units;
  for (uint32_t head = 0; head < lists.num_heads(); ++head) {
    const size_t before = units.size();
    const std::span<Slot> slots = std::span(*map).subspan(size_t{head} * num_slots, num_slots);
    const std::set<int32_t> wanted(lists.Head(head).begin(), lists.Head(head).end());
    std::set<int32_t> resident;
    for (const Slot& slot : slots) resident.insert(slot.page);
    for (const int32_t page : wanted) {
      if (resident.contains(page)) continue;
      const auto name = static_cast<uint32_t>(page);
      const Pages& member = PagesOf(sequence, MemberOf(name));
      if (PageOf(name) >= member.pages.size()) return InvalidArgument("no page ", page);
      const auto victim = std::find_if(slots.begin(), slots.end(), [&](const Slot& slot) {
        return !wanted.contains(slot.page);
      });
      std::string unit = UnitOf(pages.spec, member.pages[PageOf(name)], placed->layer(), head);
      unit.erase(0, PartOffsetBytes(pages.spec, session.part));
      units.slots.push_back(static_cast<uint32_t>(victim - slots.begin()));
      units.generations.push_back(++victim->generation);
      units.pages.push_back(static_cast<uint32_t>(page));
      units.replaced.push_back(victim->page);
      victim->page = page;
      const bool is_held = std::ranges::binary_search(held.Head(head), static_cast<uint32_t>(page));
      units.crc32c.push_back(is_held ? 0 : UnitChecksum(unit));
      if (is_held) continue;
      if (damage_all_) unit[0] = static_cast<char>(unit[0] ^ 1);
      if (damage_ && (*damage_)-- == 0) {
        unit[0] = static_cast<char>(unit[0] ^ 1);
        damage_.reset();
      }
      *payload += unit;
      const uint64_t lane = uint64_t{placed->sequence()} * pages.spec.num_layers + placed->layer();
      const uint64_t slot =
          (lane * pages.spec.num_kv_heads + head) * session.slots + units.slots.back();
      places_.push_back(slot * unit.size());
    }
    placed->add_counts(static_cast<uint32_t>(units.size() - before));
  }
  wire::EncodeLaneUnits(units, placed->mutable_units());
  return OkStatus();
}

Status FakeStore::Resync(const v1::ResyncRequest& request) {
  QUIRE_ASSIGN_OR_RETURN(SessionState * session, FindSession(request.session_id()));
  if (request.epoch() <= session->epoch) return FailedPrecondition("stale epoch");
  for (SequenceState& sequence : session->sequences) {
    const Map empty(sequence.lanes[0].committed.size());
    std::fill(sequence.lanes.begin(), sequence.lanes.end(),
              LaneState{.committed = empty, .pending = empty});
  }
  for (const v1::LaneMap& map : request.lanes()) {
    LaneState& lane = session->sequences.at(map.sequence()).lanes.at(map.layer());
    wire::LaneSlots slots;
    QUIRE_RETURN_IF_ERROR(wire::DecodeLaneSlots(map.slots(), lane.committed.size(), &slots));
    for (size_t i = 0; i < lane.committed.size(); ++i) {
      lane.committed[i] = {slots.pages[i], slots.generations[i]};
    }
    lane.pending = lane.committed;
    lane.pending_exchange = lane.committed_exchange = map.applied();
  }
  session->epoch = request.epoch();
  return OkStatus();
}

std::optional<std::string> FakeStore::RepresentativesOf(const Pages& pages, uint32_t layer,
                                                        uint32_t page) const {
  const std::vector<SegmentKey> keys = ChainKeys(kFakeSalt, pages.spec, pages.tokens);
  const auto given = representatives_.find(keys.at(page / pages.spec.segment_pages));
  if (given == representatives_.end()) return std::nullopt;
  const size_t bytes = kernels::PageDigestBytes(pages.spec, kernels::DigestKind::kRepresentatives);
  const size_t of_segment = given->second.size() / bytes / pages.spec.num_layers;
  return given->second.substr((layer * of_segment + page % pages.spec.segment_pages) * bytes,
                              bytes);
}

Status FakeStore::Digests(const v1::DigestsRequest& request, std::string* payload) {
  QUIRE_ASSIGN_OR_RETURN(SessionState * session, FindSession(request.session_id()));
  QUIRE_ASSIGN_OR_RETURN(const SequenceState* sequence, FindSequence(session, request.sequence()));
  const Pages& pages = PagesOf(*sequence, request.member());
  const KvSpec& spec = pages.spec;
  const auto kind = static_cast<kernels::DigestKind>(request.kind());
  for (uint32_t layer : request.layers()) {
    for (uint32_t page = request.first_page(); page < request.end_page(); ++page) {
      std::string digests(kernels::PageDigestBytes(spec, kind), '\0');
      kernels::DigestArgs args = kernels::PageDigestArgs(spec, kind);
      args.units = pages.pages.at(page).data() + layer * ExtentBytes(spec, 1);
      args.digests = digests.data();
      args.n_units = spec.num_kv_heads;
      if (const auto status = kernels::CpuKernels().digest(args);
          status != kernels::OpStatus::kOk) {
        return InvalidArgument("digests: ", kernels::Describe(status));
      }
      if (kind == kernels::DigestKind::kRepresentatives) {
        digests = RepresentativesOf(pages, layer, page).value_or(digests);
      }
      *payload += digests;
    }
  }
  return OkStatus();
}

Status FakeStore::ScorePages(const v1::ScorePagesRequest& request, v1::ScorePagesReply* reply) {
  QUIRE_ASSIGN_OR_RETURN(SessionState * session, FindSession(request.session_id()));
  QUIRE_ASSIGN_OR_RETURN(const SequenceState* sequence, FindSequence(session, request.sequence()));
  const KvSpec& spec = PagesOf(*sequence).spec;
  const RopeRotation rotation(spec.rope);
  const size_t d = spec.head_dim;
  const auto* query = reinterpret_cast<const float*>(request.queries().data());
  for (const v1::CandidateRange& range : request.candidates()) {
    const Pages& pages = PagesOf(*sequence, range.member());
    for (const uint32_t layer : request.layers()) {
      for (uint32_t page = range.first_page(); page < range.end_page(); ++page) {
        double score = 0;
        const uint32_t rows = TokensInPage(spec, pages.tokens.size(), page);
        for (uint32_t head = 0; head < spec.num_kv_heads; ++head) {
          const auto* const unit =
              pages.pages.at(page).data() + layer * ExtentBytes(spec, 1) + head * UnitBytes(spec);
          std::vector<float> keys(rows * d);
          for (size_t i = 0; i < keys.size(); ++i) {
            keys[i] = LoadElement(unit, static_cast<int64_t>(i), spec.dtype);
          }
          Unrotate(keys.data(), rows, 1, spec.head_dim, uint64_t{page} * spec.page_tokens,
                   spec.rope.interleaved, rotation);
          for (size_t i = 0; i < keys.size(); ++i)
            score += query[head * d + i % d] * keys[i] / rows;
        }
        reply->add_scores(static_cast<float>(score));
      }
      query += spec.num_kv_heads * d;
    }
  }
  return OkStatus();
}

}  // namespace quire::worker::testing
