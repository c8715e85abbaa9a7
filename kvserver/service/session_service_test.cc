// SPDX-License-Identifier: Apache-2.0
#include "common/wire/lane_records.h"
#include "common/wire/unit_list.h"
#include "kvserver/service/testing/service_fixture.h"
#include "quire/page_lists.h"
#include "quire/page_name.h"

namespace quire::kvserver::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SessionServiceTest : public ServiceFixture {
 protected:
  v1::OpenSessionRequest OpenRequest(uint32_t slots, uint32_t sequences = 1) {
    v1::OpenSessionRequest request;
    const v1::ContextRef ref = RefTo(Sealed(8, 1).chain_tip());
    for (uint32_t i = 0; i < sequences; ++i) {
      *request.add_sequences()->add_members()->mutable_context() = ref;
    }
    *request.mutable_spec() = SpecProto();
    request.set_slots_per_head(slots);
    return request;
  }
  v1::OpenSessionReply Open(const v1::OpenSessionRequest& request) {
    const auto reply = Call<v1::OpenSessionReply>("Session/Open", request);
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.ok() ? *reply : v1::OpenSessionReply();
  }
  v1::OpenSessionReply Open(uint32_t slots, uint32_t sequences = 1) {
    return Open(OpenRequest(slots, sequences));
  }

  static v1::RecallRequest Request(uint64_t session, uint64_t exchange) {
    v1::RecallRequest request;
    request.set_session_id(session);
    request.set_epoch(1);
    request.set_exchange(exchange);
    return request;
  }
  /// Adds a want of one layer after exchange `applied`.
  static v1::LayerWant& AddWant(v1::RecallRequest& request, uint32_t layer, uint64_t applied,
                                const PageLists& pages = {}) {
    v1::LayerWant& want = *request.add_wants();
    want.set_first_layer(layer);
    want.add_applied(applied);
    if (pages.num_heads() > 0) wire::EncodeUnitList(pages, want.mutable_units());
    return want;
  }
  static v1::RecallRequest RecallOf(uint64_t session, uint64_t exchange, uint32_t layer,
                                    const PageLists& pages, uint64_t applied = 0) {
    v1::RecallRequest request = Request(session, exchange);
    AddWant(request, layer, applied, pages);
    return request;
  }
  StatusOr<v1::RecallReply> Recall(const v1::RecallRequest& request, Payload* payload = nullptr) {
    return Call<v1::RecallReply>("Session/Recall", request, {}, payload);
  }
  StatusCode CodeOf(const v1::RecallRequest& request) { return Recall(request).status().code(); }
  static wire::LaneUnits UnitsOf(const v1::LanePlacement& lane) {
    size_t count = 0;
    for (const uint32_t head : lane.counts()) count += head;
    wire::LaneUnits units;
    EXPECT_TRUE(wire::DecodeLaneUnits(lane.units(), count, &units).ok());
    return units;
  }
};

TEST_F(SessionServiceTest, OnlyTheDiffCrossesTheWire) {
  const v1::OpenSessionReply opened = Open(3);
  EXPECT_EQ(opened.epoch(), 1u);
  EXPECT_EQ(opened.sequences(0).members(0).context().num_pages(), 9u);
  EXPECT_THAT(opened.sequences(0).members(0).tail_tokens(), ElementsAre(132));
  Payload payload;
  const auto first = Recall(RecallOf(opened.session_id(), 1, 2, {{0, 8}, {4}}), &payload);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->exchange(), 1u);
  EXPECT_EQ(payload.size_bytes(), 3 * quire::UnitBytes(spec_));
  const Slice bytes = payload.Flatten();
  const auto short_unit = TestUnit(spec_, 8, 2, 0, 1);
  EXPECT_TRUE(std::equal(short_unit.begin(), short_unit.end(),
                         bytes.bytes.begin() + static_cast<std::ptrdiff_t>(short_unit.size())));
  EXPECT_EQ(UnitsOf(first->lanes(0)).crc32c[1], Crc(short_unit));
  EXPECT_TRUE(first->lanes(0).selected().empty());

  const auto second = Recall(RecallOf(opened.session_id(), 2, 2, {{0, 5, 8}, {}}, 1), &payload);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(payload.size_bytes(), quire::UnitBytes(spec_));
  EXPECT_THAT(second->lanes(0).counts(), ElementsAre(1, 0));
  const wire::LaneUnits units = UnitsOf(second->lanes(0));
  EXPECT_THAT(units.slots, ElementsAre(2));
  EXPECT_THAT(units.generations, ElementsAre(1));
  EXPECT_THAT(units.pages, ElementsAre(5));
  EXPECT_THAT(units.replaced, ElementsAre(-1));
}

// A question continues the chain of its document, and the worker names that by its last key.
TEST_F(SessionServiceTest, PagesOfADocumentCountTheirUsesByEveryQuestion) {
  const std::string tip = Sealed(8, 1).chain_tip();
  v1::RegisterRequest document;
  document.mutable_name()->set_collection("default");
  document.mutable_name()->set_name("a");
  document.set_chain_tip(tip);
  ASSERT_TRUE(Call<v1::RegisterReply>("Registry/Register", document).ok());
  v1::PageUsesRequest asked;
  *asked.mutable_document() = document.name();
  const auto uses = [&] {
    const auto reply = Call<v1::PageUsesReply>("Registry/PageUses", asked);
    EXPECT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(reply->page_tokens(), spec_.page_tokens);
    return std::vector<uint32_t>(reply->uses().begin(), reply->uses().end());
  };
  EXPECT_THAT(uses(), ElementsAre(0, 0, 0, 0, 0, 0, 0, 0, 0));

  const v1::ContextRef chain = RefTo(tip);
  const uint64_t question = OpenContext(&chain);
  ASSERT_TRUE(Append(question, 8, 2).ok());
  v1::OpenSessionRequest open = OpenRequest(3);
  open.mutable_sequences(0)->mutable_members(0)->mutable_context()->set_open_context(question);
  const uint64_t id = Open(open).session_id();
  ASSERT_TRUE(Recall(RecallOf(id, 1, 2, {{0, 5, 9}, {0}})).ok());
  ASSERT_TRUE(Recall(RecallOf(id, 2, 2, {{0, 5, 9}, {3}}, 1)).ok());
  EXPECT_THAT(uses(), ElementsAre(2, 0, 0, 1, 0, 1, 0, 0, 0)) << "units placed, of its own pages";

  const uint64_t other = Open(3).session_id();  // Reads the chain itself.
  ASSERT_TRUE(Recall(RecallOf(other, 1, 0, {{0, 8}, {}})).ok());
  EXPECT_THAT(uses(), ElementsAre(3, 0, 0, 1, 0, 1, 0, 0, 1));
  asked.mutable_document()->set_name("b");
  EXPECT_TRUE(IsNotFound(Call<v1::PageUsesReply>("Registry/PageUses", asked).status()));
}

TEST_F(SessionServiceTest, UnitsThatTheWorkerHoldsArePlacedButNotSent) {
  const v1::OpenSessionReply opened = Open(3);
  v1::RecallRequest request = RecallOf(opened.session_id(), 1, 2, {{0, 5, 8}, {4}});
  // Page 7 is not wanted; naming it as held has no effect.
  wire::EncodeUnitList({{0, 7, 8}, {}}, request.mutable_wants(0)->mutable_held());
  Payload payload;
  const auto reply = Recall(request, &payload);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_THAT(reply->lanes(0).counts(), ElementsAre(3, 1));
  const wire::LaneUnits units = UnitsOf(reply->lanes(0));
  EXPECT_THAT(units.pages, ElementsAre(0, 5, 8, 4));
  const auto page_5 = TestUnit(spec_, 5, 2, 0, spec_.page_tokens);
  EXPECT_THAT(units.crc32c, ElementsAre(0, Crc(page_5), 0, ::testing::Ne(0)));
  ASSERT_EQ(payload.size_bytes(), 2 * quire::UnitBytes(spec_));
  const Slice bytes = payload.Flatten();
  EXPECT_TRUE(std::equal(page_5.begin(), page_5.end(), bytes.bytes.begin()));
  // They are resident like the others.
  const auto again = Recall(RecallOf(opened.session_id(), 2, 2, {{0, 5, 8}, {4}}, 1), &payload);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(payload.size_bytes(), 0u);
}

TEST_F(SessionServiceTest, ASessionLivesAsLongAsItsLeaseIsRenewed) {
  const v1::OpenSessionReply kept = Open(3), left = Open(3);
  EXPECT_EQ(kept.lease_seconds(), ServerOptions().idle_seconds);
  v1::RenewRequest renew;
  renew.add_session_ids(kept.session_id());
  for (int i = 0; i < 3; ++i) {
    clock_.Advance(std::chrono::seconds(kept.lease_seconds()) * 2 / 3);
    const auto renewed = Call<v1::RenewReply>("Leases/Renew", renew);
    ASSERT_TRUE(renewed.ok()) << renewed.status();
    EXPECT_EQ(renewed->gone_session_ids_size(), 0);
  }
  renew.add_session_ids(left.session_id());
  EXPECT_THAT(Call<v1::RenewReply>("Leases/Renew", renew)->gone_session_ids(),
              ElementsAre(left.session_id()));
  EXPECT_EQ(CodeOf(RecallOf(left.session_id(), 1, 2, {{0}, {4}})), StatusCode::kNotFound);
  EXPECT_EQ(CodeOf(RecallOf(kept.session_id(), 1, 2, {{0}, {4}})), StatusCode::kOk);
}

// The limit of the fixture is 4: a dead client's sessions make room once they are idle.
TEST_F(SessionServiceTest, AnIdleSessionMakesRoomForAnother) {
  const v1::OpenSessionRequest request = OpenRequest(3);
  const uint64_t oldest = Open(request).session_id();
  clock_.Advance(std::chrono::seconds(1));
  for (int i = 0; i < 3; ++i) Open(request);
  EXPECT_EQ(Call<v1::OpenSessionReply>("Session/Open", request).status().code(),
            StatusCode::kResourceExhausted);
  clock_.Advance(std::chrono::seconds(ServerOptions().idle_seconds) - std::chrono::seconds(2));
  const uint64_t fifth = Open(request).session_id();
  EXPECT_EQ(CodeOf(RecallOf(oldest, 1, 2, {{0}, {4}})), StatusCode::kNotFound);
  EXPECT_EQ(CodeOf(RecallOf(fifth, 1, 2, {{0}, {4}})), StatusCode::kOk);
}

TEST_F(SessionServiceTest, WhatIsHeldMustBeAUnitListOfTheSession) {
  const v1::OpenSessionReply opened = Open(3);
  v1::RecallRequest request = RecallOf(opened.session_id(), 1, 2, {{0}, {4}});
  wire::EncodeUnitList({{0, 1, 2, 3}, {}}, request.mutable_wants(0)->mutable_held());
  EXPECT_EQ(CodeOf(request), StatusCode::kInvalidArgument);  // More than there are slots.
  wire::EncodeUnitList({{0}}, request.mutable_wants(0)->mutable_held());
  EXPECT_EQ(CodeOf(request), StatusCode::kInvalidArgument);  // A head is missing.
}

TEST_F(SessionServiceTest, ARecallNamesAsManyPagesAsThereAreSlotsAtMost) {
  const v1::OpenSessionReply opened = Open(3);  // Has 3 layers and 2 heads.
  const auto refused = [&](const PageLists& wanted, const PageLists& held, int wants) {
    v1::RecallRequest request = Request(opened.session_id(), 1);
    for (int i = 0; i < wants; ++i) {
      wire::EncodeUnitList(held, AddWant(request, 0, 0, wanted).mutable_held());
    }
    const Status status = Recall(request).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return std::string(Message(status));
  };
  const PageLists full = {{0, 1, 2}, {0, 1, 2}}, none = {{}, {}};
  EXPECT_THAT(refused(full, none, 4), HasSubstr("more pages than the session has slots"));
  EXPECT_THAT(refused(none, full, 4), HasSubstr("more pages than the session has slots"));
  EXPECT_THAT(refused(full, full, 3), HasSubstr("is named twice"));
}

TEST_F(SessionServiceTest, SlotsOfASequenceAreItsOwn) {
  v1::OpenSessionRequest open = OpenRequest(4, 2);
  open.mutable_sequences(0)->set_slots_per_head(2);
  const v1::OpenSessionReply opened = Open(open);
  v1::RecallRequest request = RecallOf(opened.session_id(), 1, 2, {{0, 5, 8}, {4}});
  const Status wanted = Recall(request).status();
  EXPECT_EQ(wanted.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Message(wanted)), HasSubstr("3 pages: must be at most 2"));
  wire::EncodeUnitList({{0, 8}, {4}}, request.mutable_wants(0)->mutable_units());
  wire::EncodeUnitList({{0, 5, 8}, {}}, request.mutable_wants(0)->mutable_held());
  EXPECT_EQ(CodeOf(request), StatusCode::kInvalidArgument);
  request.mutable_wants(0)->clear_held();
  const auto reply = Recall(request);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_THAT(UnitsOf(reply->lanes(0)).slots, ElementsAre(0, 1, 0));
  request.mutable_wants(0)->set_sequence(1);
  wire::EncodeUnitList({{0, 5, 8}, {4}}, request.mutable_wants(0)->mutable_units());
  EXPECT_EQ(CodeOf(request), StatusCode::kOk);
  request.mutable_wants(0)->set_sequence(2);
  EXPECT_EQ(CodeOf(request), StatusCode::kInvalidArgument);

  v1::ResyncRequest resync;
  resync.set_session_id(opened.session_id());
  resync.set_epoch(2);
  v1::LaneMap& map = *resync.add_lanes();
  const std::vector<int32_t> empty(8, -1);
  wire::EncodeLaneSlots(empty, std::vector<uint32_t>(8), map.mutable_slots());
  const auto code = [&] { return Call<v1::ResyncReply>("Session/Resync", resync).status().code(); };
  EXPECT_EQ(code(), StatusCode::kInvalidArgument) << "the sequence has 4";
  map.set_sequence(1);
  EXPECT_EQ(code(), StatusCode::kOk);

  v1::AddSequenceRequest add;
  add.set_session_id(opened.session_id());
  *add.mutable_sequence() = open.sequences(0);
  for (const uint32_t slots : {5u, ~0u}) {
    add.mutable_sequence()->set_slots_per_head(slots);
    const Status refused = Call<v1::AddSequenceReply>("Session/AddSequence", add).status();
    EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(Message(refused)), HasSubstr("the session has 4"));
  }
  add.mutable_sequence()->set_slots_per_head(1);
  EXPECT_TRUE(Call<v1::AddSequenceReply>("Session/AddSequence", add).ok());
}

TEST_F(SessionServiceTest, AReplyComesInPartsOfWholeLanesWithThePlacesOfItsUnits) {
  const v1::OpenSessionReply opened = Open(8);
  v1::RecallRequest request = Request(opened.session_id(), 1);
  request.set_place(true);
  v1::LayerWant& want = AddWant(request, 0, 0, {{0, 1, 2, 3, 4, 5, 6, 7}, {0, 1, 2, 3}});
  want.set_num_layers(3);
  want.add_applied(0);
  want.add_applied(0);
  LoopbackTransport cut(server_->handler(), {.max_message_bytes = 1 << 20, .part_bytes = 1});
  auto call = cut.Start("quire.v1.Session/Recall", {request.SerializeAsString(), {}},
                        {.tenant = tenant_, .timeout = std::chrono::minutes(5)});
  ASSERT_TRUE(call.ok()) << call.status();
  for (uint32_t layer = 0; layer < 3; ++layer) {
    const auto part = (*call)->Next(TimePoint::max());
    ASSERT_TRUE(part.ok() && part->has_value()) << part.status();
    v1::RecallReply reply;
    ASSERT_TRUE(reply.ParseFromString((*part)->control));
    ASSERT_EQ(reply.lanes_size(), 1);
    EXPECT_EQ(reply.lanes(0).layer(), layer);
    EXPECT_EQ((*part)->payload.size_bytes(), 12 * quire::UnitBytes(spec_));
    ASSERT_EQ((*part)->places.size(), 12u);
    EXPECT_EQ((*part)->places[8], (layer * 2 + 1) * 8 * quire::UnitBytes(spec_));
  }
  EXPECT_FALSE((*(*call)->Next(TimePoint::max())).has_value());
}

TEST_F(SessionServiceTest, APartComesInPiecesOfWholeUnitsWhereThatIsAskedFor) {
  LoopbackTransport parts(server_->handler(), {.max_message_bytes = 1 << 20});
  const uint64_t unit_bytes = quire::UnitBytes(spec_);
  const uint64_t session = Open(8).session_id();
  uint32_t layer = 0;
  /// The payloads of the messages of a reply for an empty lane. The first message has the lane.
  const auto messages = [&](uint64_t piece_bytes) {
    v1::RecallRequest request = Request(session, layer + 1);
    AddWant(request, layer++, 0, {{0, 1, 2, 3, 4, 5, 6}, {0, 1, 2, 3}});
    auto call = parts.Start("quire.v1.Session/Recall", {request.SerializeAsString(), {}},
                            {.tenant = tenant_,
                             .timeout = std::chrono::minutes(5),
                             .piece_bytes = static_cast<uint32_t>(piece_bytes)});
    EXPECT_TRUE(call.ok()) << call.status();
    std::vector<std::vector<std::byte>> payloads;
    uint64_t to_come = 0;
    for (;;) {
      const auto part = (*call)->Next(TimePoint::max());
      EXPECT_TRUE(part.ok()) << part.status();
      if (!part.ok() || !part->has_value()) break;
      EXPECT_EQ((*part)->control.empty(), !payloads.empty());
      payloads.emplace_back((*part)->payload.size_bytes());
      (*part)->payload.CopyTo(payloads.back().data());
      to_come = (*part)->bytes_to_come;
    }
    EXPECT_EQ(to_come, 0u);
    return payloads;
  };
  const auto whole = messages(0);
  ASSERT_EQ(whole.size(), 1u);
  EXPECT_EQ(whole[0].size(), 11 * unit_bytes);
  const auto pieces = messages(4 * unit_bytes);
  EXPECT_GT(pieces.size(), 1u);
  uint64_t bytes = 0;
  for (const auto& piece : pieces) {
    EXPECT_EQ(piece.size() % unit_bytes, 0u);
    bytes += piece.size();
  }
  EXPECT_EQ(bytes, whole[0].size());
}

TEST_F(SessionServiceTest, HeadsThatKeepWhatTheyHoldAreToldTheirSelectionOnly) {
  const v1::OpenSessionReply opened = Open(4);
  const auto recall = [&](uint64_t exchange, std::vector<uint32_t> kept) {
    v1::RecallRequest request = Request(opened.session_id(), exchange);
    v1::QuerySelection& query = *AddWant(request, 1, 0).mutable_query();
    query.set_queries(wire::FloatsToBytes(std::vector<float>(32, 0.5f)));
    query.add_candidates()->set_end_page(8);
    query.set_num_pages(3);
    query.mutable_kept_heads()->Add(kept.begin(), kept.end());
    return Recall(request);
  };
  const auto told = recall(1, {0});
  ASSERT_TRUE(told.ok()) << told.status();
  EXPECT_EQ(told->lanes(0).counts(0), 0u);
  EXPECT_EQ(told->lanes(0).counts(1), 3u);
  const auto all = recall(2, {});
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(all->lanes(0).counts(0), 3u);
  EXPECT_EQ(all->lanes(0).selected(), told->lanes(0).selected());
  EXPECT_EQ(recall(3, {1, 0}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(recall(3, {0, 0}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(recall(3, {2}).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(SessionServiceTest, AQueryIsAnsweredWithWhatTheServerSelected) {
  const v1::OpenSessionReply opened = Open(4);
  uint64_t exchange = 0;
  const auto request_of = [&](auto change) {
    v1::RecallRequest request = Request(opened.session_id(), ++exchange);
    v1::QuerySelection& query = *AddWant(request, 1, 0).mutable_query();
    query.set_queries(wire::FloatsToBytes(std::vector<float>(32, 0.5f)));
    v1::CandidateRange& range = *query.add_candidates();
    range.set_first_page(1);
    range.set_end_page(8);
    query.set_num_pages(3);
    change(*request.mutable_wants(0), query);
    return request;
  };
  using Want = v1::LayerWant;
  using Query = v1::QuerySelection;
  const auto selected = [&](auto change) {
    const auto reply = Recall(request_of(change));
    EXPECT_TRUE(reply.ok()) << reply.status();
    PageLists pages;
    if (reply.ok()) {
      EXPECT_TRUE(wire::DecodeUnitList(reply->lanes(0).selected(), 2, 4, &pages).ok());
    }
    return pages;
  };
  const PageLists by_default = selected([](Want&, Query&) {});
  EXPECT_EQ(by_default.num_pages(), 6u);
  for (const v1::Pooling pooling : {v1::POOLING_MAX_Q, v1::POOLING_AVG_SDM}) {
    EXPECT_EQ(selected([&](Want&, Query& q) { q.set_pooling(pooling); }).num_pages(), 6u);
  }
  // One half is exact in every type.
  const auto halves = [](uint16_t bits) {
    std::string bytes;
    for (int i = 0; i < 32; ++i) bytes.append(reinterpret_cast<const char*>(&bits), 2);
    return bytes;
  };
  EXPECT_EQ(by_default, selected([&](Want&, Query& q) {
              q.set_dtype(v1::DTYPE_F16);
              q.set_queries(halves(0x3800));
            }));
  EXPECT_EQ(by_default, selected([&](Want&, Query& q) {
              q.set_dtype(v1::DTYPE_BF16);
              q.set_queries(halves(0x3f00));
            }));
  EXPECT_EQ(selected([](Want&, Query& q) { q.set_num_pages(0); }).num_pages(), 0u);
  EXPECT_EQ(by_default, selected([](Want&, Query& q) { q.set_digest(v1::DIGEST_KIND_MIN_MAX); }));
  for (int kind = v1::DIGEST_KIND_MEAN; kind <= v1::DIGEST_KIND_DISC; ++kind) {
    const auto ask = [&](Want&, Query& q) { q.set_digest(static_cast<v1::DigestKind>(kind)); };
    EXPECT_EQ(selected(ask).num_pages(), 6u) << kind;
  }

  const auto refused = [&](auto change) {
    return CodeOf(request_of(change)) == StatusCode::kInvalidArgument;
  };
  EXPECT_TRUE(refused([](Want&, Query& q) { q.set_queries("abc"); }));
  EXPECT_TRUE(refused([](Want&, Query& q) { q.set_queries(std::string(128, '\xff')); }));  // NaN
  EXPECT_TRUE(refused([](Want&, Query& q) { q.set_queries(""); }));
  EXPECT_TRUE(refused([](Want&, Query& q) { q.set_dtype(v1::DTYPE_F16); }));
  EXPECT_TRUE(refused([](Want&, Query& q) { q.set_dtype(static_cast<v1::DType>(4)); }));
  EXPECT_TRUE(refused([](Want&, Query& q) { q.set_dtype(static_cast<v1::DType>(-1)); }));
  EXPECT_TRUE(refused([](Want& w, Query&) { w.set_num_layers(2); }));
  EXPECT_TRUE(refused([](Want& w, Query&) { w.add_applied(0); }));
  EXPECT_TRUE(refused([](Want& w, Query&) {
    w.set_num_layers(2);
    w.add_applied(0);
  }));
  EXPECT_TRUE(refused([](Want&, Query& q) { q.mutable_candidates(0)->set_end_page(~0u); }));
  EXPECT_TRUE(refused([](Want&, Query& q) { q.mutable_candidates(0)->set_first_page(9); }));
  EXPECT_TRUE(refused([](Want&, Query& q) { q.mutable_candidates(0)->set_member(1); }));
  EXPECT_TRUE(refused([](Want&, Query& q) { q.mutable_candidates(0)->set_member(~0u); }));
  EXPECT_TRUE(refused([](Want&, Query& q) { *q.add_candidates() = q.candidates(0); }));
  EXPECT_TRUE(refused([](Want&, Query& q) { q.set_num_pages(5); }));
  EXPECT_TRUE(refused([](Want&, Query& q) { q.set_pooling(static_cast<v1::Pooling>(99)); }));
  EXPECT_TRUE(refused([](Want&, Query& q) { q.set_scale(-1); }));
  EXPECT_TRUE(refused([](Want&, Query& q) { q.set_digest(static_cast<v1::DigestKind>(7)); }));
  EXPECT_TRUE(refused([](Want&, Query& q) { q.set_digest(static_cast<v1::DigestKind>(-1)); }));
}

TEST_F(SessionServiceTest, HostileRecallsAreRefusedAndTheSessionGoesOn) {
  const uint64_t id = Open(2).session_id();
  constexpr StatusCode kBad = StatusCode::kInvalidArgument;
  EXPECT_EQ(CodeOf(RecallOf(id + 1, 1, 0, {{}, {}})), StatusCode::kNotFound);
  EXPECT_EQ(CodeOf(RecallOf(id, 0, 0, {{}, {}})), StatusCode::kFailedPrecondition);
  EXPECT_EQ(CodeOf(RecallOf(id, 2, 0, {{}, {}}, 1)), StatusCode::kFailedPrecondition);
  EXPECT_EQ(CodeOf(RecallOf(id, 1, 3, {{}, {}})), kBad);
  EXPECT_EQ(CodeOf(RecallOf(id, 1, ~0u, {{}, {}})), kBad);
  EXPECT_EQ(CodeOf(RecallOf(id, 1, 0, {{}})), kBad);
  EXPECT_EQ(CodeOf(RecallOf(id, 1, 0, {{9}, {}})), kBad);
  EXPECT_EQ(CodeOf(RecallOf(id, 1, 0, {{0, 1, 2}, {}})), kBad);
  EXPECT_EQ(CodeOf(RecallOf(id, 1, 0, {{PageName(1, 0)}, {}})), kBad);
  EXPECT_EQ(CodeOf(RecallOf(id, 1, 0, {})), kBad) << "neither pages nor a query";
  const auto refused = [&](auto change) {
    v1::RecallRequest request = RecallOf(id, 1, 0, {{1}, {}});
    change(*request.mutable_wants(0));
    return CodeOf(request) == kBad;
  };
  using Want = v1::LayerWant;
  EXPECT_TRUE(refused([](Want& w) { w.set_sequence(1); }));
  EXPECT_TRUE(refused([](Want& w) { w.set_sequence(~0u); }));
  EXPECT_TRUE(refused([](Want& w) { w.set_num_layers(~0u); }));
  EXPECT_TRUE(refused([](Want& w) { w.clear_applied(); }));
  EXPECT_TRUE(refused([](Want& w) { w.set_units("\xff\xff\xff\xff\xff"); }));
  EXPECT_TRUE(refused([](Want& w) { w.mutable_units()->push_back('\0'); }));
  v1::RecallRequest twice = RecallOf(id, 1, 0, {{1}, {}});
  *twice.add_wants() = twice.wants(0);
  EXPECT_EQ(CodeOf(twice), kBad);
  for (int i = 0; i < 100; ++i) *twice.add_wants() = twice.wants(0);
  EXPECT_EQ(CodeOf(twice), kBad) << "more pages than there are slots";
  tenant_ = "team-b";
  EXPECT_EQ(CodeOf(RecallOf(id, 1, 0, {{1}, {}})), StatusCode::kNotFound);
  tenant_ = "default";
  EXPECT_EQ(CodeOf(RecallOf(id, 1, 0, {{1}, {}})), StatusCode::kOk);
}

TEST_F(SessionServiceTest, ResyncTakesTheWorkersMapUnderAHigherEpoch) {
  const uint64_t id = Open(2).session_id();
  v1::ResyncRequest request;
  request.set_session_id(id);
  request.set_epoch(5);
  v1::LaneMap& map = *request.add_lanes();
  wire::EncodeLaneSlots(std::vector<int32_t>{-1, 7, -1, 7}, std::vector<uint32_t>{0, 4, 0, 4},
                        map.mutable_slots());
  const std::string slots = map.slots();
  map.mutable_slots()->pop_back();
  EXPECT_EQ(Call<v1::ResyncReply>("Session/Resync", request).status().code(),
            StatusCode::kInvalidArgument);
  map.set_slots(slots);
  ASSERT_TRUE(Call<v1::ResyncReply>("Session/Resync", request).ok());
  v1::RecallRequest recall = RecallOf(id, 1, 0, {{7}, {1}});
  EXPECT_EQ(CodeOf(recall), StatusCode::kFailedPrecondition);
  recall.set_epoch(5);
  EXPECT_THAT(Recall(recall)->lanes(0).counts(), ElementsAre(0, 1));
}

TEST_F(SessionServiceTest, SequencesAreAddedAndRemoved) {
  const v1::OpenSessionRequest open = OpenRequest(2, 2);
  const uint64_t id = Open(open).session_id();
  v1::RemoveSequenceRequest remove;
  remove.set_session_id(id);
  EXPECT_TRUE(Call<v1::RemoveSequenceReply>("Session/RemoveSequence", remove).ok());
  EXPECT_EQ(Call<v1::RemoveSequenceReply>("Session/RemoveSequence", remove).status().code(),
            StatusCode::kNotFound);
  v1::AddSequenceRequest add;
  add.set_session_id(id);
  EXPECT_EQ(Call<v1::AddSequenceReply>("Session/AddSequence", add).status().code(),
            StatusCode::kInvalidArgument);
  *add.mutable_sequence() = open.sequences(0);
  add.mutable_sequence()->mutable_members(0)->set_position_offset(128);
  const auto added = Call<v1::AddSequenceReply>("Session/AddSequence", add);
  ASSERT_TRUE(added.ok()) << added.status();
  EXPECT_EQ(added->sequence(), 0u);
  EXPECT_EQ(added->opened().members(0).context().num_pages(), 9u);
  add.set_session_id(id + 1);
  EXPECT_EQ(Call<v1::AddSequenceReply>("Session/AddSequence", add).status().code(),
            StatusCode::kNotFound);
}

TEST_F(SessionServiceTest, DigestsComeAsOnePayload) {
  const uint64_t id = Open(2).session_id();
  v1::DigestsRequest request;
  request.set_session_id(id);
  request.add_layers(2);
  request.add_layers(0);
  request.set_end_page(9);
  Payload payload;
  ASSERT_TRUE(Call<v1::DigestsReply>("Session/Digests", request, {}, &payload).ok());
  EXPECT_EQ(payload.size_bytes(), 2u * 9 * 2 * 2 * 8 * 4);
  request.set_kind(v1::DIGEST_KIND_CENTRE_RADIUS);
  ASSERT_TRUE(Call<v1::DigestsReply>("Session/Digests", request, {}, &payload).ok());
  EXPECT_EQ(payload.size_bytes(), 2u * 9 * 2 * 9 * 4);
  request.set_kind(static_cast<v1::DigestKind>(8));
  EXPECT_EQ(Call<v1::DigestsReply>("Session/Digests", request).status().code(),
            StatusCode::kInvalidArgument);
  request.clear_kind();
  request.set_end_page(10);
  EXPECT_EQ(Call<v1::DigestsReply>("Session/Digests", request).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(SessionServiceTest, ScoresOfPagesComeForEveryLayerAndHostileQueriesAreRefused) {
  v1::ScorePagesRequest request;
  request.set_session_id(Open(2).session_id());
  request.add_layers(2);
  request.add_layers(0);
  request.add_candidates()->set_end_page(9);
  request.set_queries(std::string(2 * 2 * 8 * sizeof(float), '\0'));
  const auto scores = Call<v1::ScorePagesReply>("Session/ScorePages", request);
  ASSERT_TRUE(scores.ok()) << scores.status();
  EXPECT_EQ(scores->scores_size(), 2 * 9);
  const auto refused = [&](auto change) {
    v1::ScorePagesRequest bad = request;
    change(bad);
    return Call<v1::ScorePagesReply>("Session/ScorePages", bad).status().code() ==
           StatusCode::kInvalidArgument;
  };
  using Request = v1::ScorePagesRequest;
  EXPECT_TRUE(refused([](Request& bad) { bad.mutable_queries()->pop_back(); }));
  EXPECT_TRUE(refused([](Request& bad) { bad.mutable_queries()->append(4, '\0'); }));
  EXPECT_TRUE(refused([](Request& bad) {
    bad.mutable_queries()->replace(0, 4, "\0\0\x80\x7f", 4);
  })) << "infinity";
  EXPECT_TRUE(refused([](Request& bad) { bad.set_dtype(v1::DTYPE_F16); }));
  EXPECT_TRUE(refused([](Request& bad) { bad.set_dtype(static_cast<v1::DType>(99)); }));
  EXPECT_TRUE(refused([](Request& bad) { bad.set_layers(0, 1u << 30); }));
  EXPECT_TRUE(refused([](Request& bad) {
    bad.clear_candidates();
    bad.clear_queries();
    for (uint32_t i = 0; i < 1000; ++i) bad.add_layers(0);
  })) << "more layers than the model has";
  EXPECT_TRUE(refused([](Request& bad) { bad.mutable_candidates(0)->set_end_page(10); }));
  EXPECT_TRUE(refused([](Request& bad) { bad.mutable_candidates(0)->set_member(~0u); }));
  EXPECT_TRUE(refused([](Request& bad) { bad.set_sequence(7); }));
  tenant_ = "team-b";
  EXPECT_EQ(Call<v1::ScorePagesReply>("Session/ScorePages", request).status().code(),
            StatusCode::kNotFound);
}

TEST_F(SessionServiceTest, ASessionMayBeOpenedForValuesAlone) {
  const auto open = [&](int part) {
    v1::OpenSessionRequest request = OpenRequest(3);
    request.set_unit_part(static_cast<v1::UnitPart>(part));
    return Call<v1::OpenSessionReply>("Session/Open", request);
  };
  const auto payload = [&](const StatusOr<v1::OpenSessionReply>& opened) {
    EXPECT_TRUE(opened.ok()) << opened.status();
    Payload units;
    EXPECT_TRUE(Recall(RecallOf(opened->session_id(), 1, 2, {{5}, {}}), &units).ok());
    std::vector<std::byte> bytes(units.size_bytes());
    units.CopyTo(bytes.data());
    return bytes;
  };
  std::vector<std::byte> unit = TestUnit(spec_, 5, 2, 0, spec_.page_tokens);
  EXPECT_EQ(payload(open(v1::UNIT_PART_UNSPECIFIED)), unit);
  EXPECT_EQ(payload(open(v1::UNIT_PART_WHOLE)), unit);
  unit.erase(unit.begin(), unit.begin() + static_cast<std::ptrdiff_t>(ValueOffsetBytes(spec_)));
  EXPECT_EQ(payload(open(v1::UNIT_PART_VALUES)), unit);
  EXPECT_EQ(open(3).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(open(-1).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(SessionServiceTest, CodecsThatTheWorkerDecodesAreNamedAtOpen) {
  const auto open = [&](const std::vector<int>& codecs, v1::UnitPart part) {
    v1::OpenSessionRequest request = OpenRequest(3);
    for (const int codec : codecs) request.add_codecs(static_cast<v1::UnitCodec>(codec));
    request.set_unit_part(part);
    return Call<v1::OpenSessionReply>("Session/Open", request);
  };
  const auto opened = open({v1::UNIT_CODEC_INT4, v1::UNIT_CODEC_INT8}, v1::UNIT_PART_WHOLE);
  ASSERT_TRUE(opened.ok()) << opened.status();
  const auto reply = Recall(RecallOf(opened->session_id(), 1, 2, {{5}, {5}}));
  ASSERT_TRUE(reply.ok()) << reply.status();
  ASSERT_EQ(reply->codecs_size(), 1);
  EXPECT_EQ(reply->codecs(0).codec(), v1::UNIT_CODEC_RAW);
  EXPECT_EQ(reply->codecs(0).units(), 2u);
  for (const int codec : {0, 5, -1, 259}) {
    EXPECT_EQ(open({codec}, v1::UNIT_PART_WHOLE).status().code(), StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(open({v1::UNIT_CODEC_INT8}, v1::UNIT_PART_VALUES).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(SessionServiceTest, DigestsToHoldAreNamedAtOpen) {
  const auto code = [&](int kind, const std::vector<uint32_t>& layers) {
    v1::OpenSessionRequest request = OpenRequest(2);
    request.add_managed_layers(0);
    request.add_managed_layers(2);
    request.mutable_hold_digests()->set_kind(static_cast<v1::DigestKind>(kind));
    for (const uint32_t layer : layers) request.mutable_hold_digests()->add_layers(layer);
    return Call<v1::OpenSessionReply>("Session/Open", request).status().code();
  };
  EXPECT_EQ(code(v1::DIGEST_KIND_UNSPECIFIED, {}), StatusCode::kOk);
  EXPECT_EQ(code(v1::DIGEST_KIND_DISC, {2}), StatusCode::kOk);
  EXPECT_EQ(code(8, {}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(v1::DIGEST_KIND_MEAN, {1}), StatusCode::kInvalidArgument);
}

TEST_F(SessionServiceTest, OpeningNamesTheDifferingFieldAndBoundsAreKept) {
  v1::OpenSessionRequest request = OpenRequest(2);
  request.mutable_spec()->mutable_rope()->set_theta(123);
  const auto mismatch = Call<v1::OpenSessionReply>("Session/Open", request);
  EXPECT_EQ(mismatch.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Message(mismatch.status())), HasSubstr("rope.theta"));
  request = OpenRequest(0);
  EXPECT_FALSE(Call<v1::OpenSessionReply>("Session/Open", request).ok());
  request.set_slots_per_head(~0u);
  EXPECT_FALSE(Call<v1::OpenSessionReply>("Session/Open", request).ok());
  request.set_slots_per_head(2);
  v1::OpenSessionRequest many = request;
  for (int i = 0; i < 256; ++i) *many.add_sequences() = request.sequences(0);
  EXPECT_EQ(Call<v1::OpenSessionReply>("Session/Open", many).status().code(),
            StatusCode::kInvalidArgument);
  many = request;
  for (int i = 0; i < 64; ++i) {
    *many.mutable_sequences(0)->add_members() = request.sequences(0).members(0);
  }
  EXPECT_EQ(Call<v1::OpenSessionReply>("Session/Open", many).status().code(),
            StatusCode::kInvalidArgument);
  many = request;
  many.clear_sequences();
  EXPECT_EQ(Call<v1::OpenSessionReply>("Session/Open", many).status().code(),
            StatusCode::kInvalidArgument);
  v1::CloseSessionRequest close;
  for (int i = 0; i < 4; ++i) close.set_session_id(Open(2).session_id());
  EXPECT_EQ(Call<v1::OpenSessionReply>("Session/Open", request).status().code(),
            StatusCode::kResourceExhausted);
  EXPECT_TRUE(Call<v1::CloseSessionReply>("Session/Close", close).ok());
  EXPECT_EQ(Call<v1::CloseSessionReply>("Session/Close", close).status().code(),
            StatusCode::kNotFound);
  EXPECT_TRUE(Call<v1::OpenSessionReply>("Session/Open", request).ok());
}

}  // namespace
}  // namespace quire::kvserver::testing
