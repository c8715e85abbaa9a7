// SPDX-License-Identifier: Apache-2.0
#include "kvserver/service/testing/service_fixture.h"

namespace quire::kvserver::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SessionServiceTest : public ServiceFixture {
 protected:
  v1::OpenSessionRequest OpenRequest(uint32_t slots) {
    v1::OpenSessionRequest request;
    *request.mutable_context() = RefTo(Sealed(8, 1).chain_tip());
    *request.mutable_spec() = SpecProto();
    request.set_slots_per_head(slots);
    return request;
  }
  v1::OpenSessionReply Open(uint32_t slots) {
    const auto reply = Call<v1::OpenSessionReply>("Session/Open", OpenRequest(slots));
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.ok() ? *reply : v1::OpenSessionReply();
  }
  static v1::RecallRequest RecallRequest(uint64_t session, uint64_t sequence, uint32_t layer,
                                         const std::vector<std::vector<uint32_t>>& pages) {
    v1::RecallRequest request;
    request.set_session_id(session);
    request.set_epoch(1);
    request.set_sequence(sequence);
    request.set_acked_sequence(sequence - 1);
    v1::LayerRecall* recall = request.add_layers();
    recall->set_layer(layer);
    for (const auto& head : pages) {
      recall->mutable_units()->add_heads()->mutable_pages()->Add(head.begin(), head.end());
    }
    return request;
  }
  StatusOr<v1::RecallReply> Recall(const v1::RecallRequest& request, Payload* payload = nullptr) {
    return Call<v1::RecallReply>("Session/Recall", request, {}, payload);
  }
};

TEST_F(SessionServiceTest, OnlyTheDiffCrossesTheWire) {
  const v1::OpenSessionReply opened = Open(3);
  EXPECT_EQ(opened.epoch(), 1u);
  EXPECT_EQ(opened.context().num_pages(), 9u);
  EXPECT_THAT(opened.tail_tokens(), ElementsAre(132));
  Payload payload;
  const auto first = Recall(RecallRequest(opened.session_id(), 1, 2, {{0, 8}, {4}}), &payload);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(payload.size_bytes(), 3 * quire::UnitBytes(spec_));
  const Slice bytes = payload.Flatten();
  const auto short_unit = TestUnit(spec_, 8, 2, 0, 1);
  EXPECT_TRUE(std::equal(short_unit.begin(), short_unit.end(),
                         bytes.bytes.begin() + static_cast<std::ptrdiff_t>(short_unit.size())));
  EXPECT_EQ(first->unit_crc32c(1), Crc(short_unit));

  const auto second = Recall(RecallRequest(opened.session_id(), 2, 2, {{0, 5, 8}, {}}), &payload);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(payload.size_bytes(), quire::UnitBytes(spec_));
  const v1::HeadPlacement& head = second->layers(0).heads(0);
  EXPECT_THAT(head.slots(), ElementsAre(2));
  EXPECT_THAT(head.generations(), ElementsAre(1));
  EXPECT_THAT(head.pages(), ElementsAre(5));
  EXPECT_THAT(head.replaced(), ElementsAre(-1));
  v1::AckRequest ack;
  ack.set_session_id(opened.session_id());
  ack.set_epoch(1);
  ack.set_sequence(2);
  EXPECT_TRUE(Call<v1::AckReply>("Session/Ack", ack).ok());
  ack.set_epoch(2);
  EXPECT_EQ(Call<v1::AckReply>("Session/Ack", ack).status().code(),
            StatusCode::kFailedPrecondition);
}

TEST_F(SessionServiceTest, AQueryIsAnsweredWithWhatTheServerSelected) {
  const v1::OpenSessionReply opened = Open(4);
  v1::RecallRequest request = RecallRequest(opened.session_id(), 1, 1, {});
  v1::QuerySelection* query = request.mutable_layers(0)->mutable_query();
  query->set_query(wire::FloatsToBytes(std::vector<float>(32, 0.5f)));
  query->set_first_page(1);
  query->set_end_page(8);
  query->set_num_pages(3);
  for (const v1::Pooling pooling :
       {v1::POOLING_UNSPECIFIED, v1::POOLING_MAX_Q, v1::POOLING_AVG_SDM}) {
    request.set_acked_sequence(request.sequence() - 1);
    query->set_pooling(pooling);
    const auto reply = Recall(request);
    ASSERT_TRUE(reply.ok()) << reply.status();
    ASSERT_EQ(reply->layers(0).selected_size(), 2);
    EXPECT_EQ(reply->layers(0).selected(1).pages_size(), 3);
    request.set_sequence(request.sequence() + 1);
  }
  const auto refused = [&](auto change) {
    v1::RecallRequest bad = request;
    bad.set_acked_sequence(request.sequence() - 1);
    change(*bad.mutable_layers(0)->mutable_query());
    return Recall(bad).status().code() == StatusCode::kInvalidArgument;
  };
  using Query = v1::QuerySelection;
  EXPECT_TRUE(refused([](Query& q) { q.set_query("abc"); }));
  EXPECT_TRUE(refused([](Query& q) { q.set_query(std::string(128, '\xff')); }));  // NaN
  EXPECT_TRUE(refused([](Query& q) { q.set_query(""); }));
  EXPECT_TRUE(refused([](Query& q) { q.set_end_page(~0u); }));
  EXPECT_TRUE(refused([](Query& q) { q.set_first_page(9); }));
  EXPECT_TRUE(refused([](Query& q) { q.set_num_pages(5); }));
  EXPECT_TRUE(refused([](Query& q) { q.set_pooling(static_cast<v1::Pooling>(99)); }));
  EXPECT_TRUE(refused([](Query& q) { q.set_scale(-1); }));
}

TEST_F(SessionServiceTest, HostileRecallsAreRefusedAndTheSessionGoesOn) {
  const uint64_t id = Open(2).session_id();
  const auto code = [&](const v1::RecallRequest& request) {
    return Recall(request).status().code();
  };
  EXPECT_EQ(code(RecallRequest(id + 1, 1, 0, {{}, {}})), StatusCode::kNotFound);
  EXPECT_EQ(code(RecallRequest(id, 2, 0, {{}, {}})), StatusCode::kFailedPrecondition);
  EXPECT_EQ(code(RecallRequest(id, 1, 3, {{}, {}})), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(RecallRequest(id, 1, 0, {{}})), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(RecallRequest(id, 1, 0, {{9}, {}})), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(RecallRequest(id, 1, 0, {{1, 1}, {}})), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(RecallRequest(id, 1, 0, {{3, 1}, {}})), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(RecallRequest(id, 1, 0, {{~0u}, {}})), StatusCode::kInvalidArgument);
  v1::RecallRequest neither = RecallRequest(id, 1, 0, {});
  EXPECT_EQ(code(neither), StatusCode::kInvalidArgument);
  tenant_ = "team-b";
  EXPECT_EQ(code(RecallRequest(id, 1, 0, {{1}, {}})), StatusCode::kNotFound);
  tenant_ = "default";
  EXPECT_EQ(code(RecallRequest(id, 1, 0, {{1}, {}})), StatusCode::kOk);
}

TEST_F(SessionServiceTest, ResyncTakesTheWorkersMapUnderAHigherEpoch) {
  const uint64_t id = Open(2).session_id();
  v1::ResyncRequest request;
  request.set_session_id(id);
  request.set_epoch(5);
  EXPECT_EQ(Call<v1::ResyncReply>("Session/Resync", request).status().code(),
            StatusCode::kInvalidArgument);
  for (uint32_t layer = 0; layer < spec_.num_layers; ++layer) {
    v1::LayerMap* map = request.add_layers();
    map->set_layer(layer);
    for (uint32_t head = 0; head < spec_.num_kv_heads; ++head) {
      v1::HeadMap* slots = map->add_heads();
      slots->add_pages(-1);
      slots->add_pages(7);
      slots->add_generations(0);
      slots->add_generations(4);
    }
  }
  ASSERT_TRUE(Call<v1::ResyncReply>("Session/Resync", request).ok());
  v1::RecallRequest recall = RecallRequest(id, 1, 0, {{7}, {1}});
  EXPECT_EQ(Recall(recall).status().code(), StatusCode::kFailedPrecondition);
  recall.set_epoch(5);
  EXPECT_EQ(Recall(recall)->unit_crc32c_size(), 1);
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
  request.set_end_page(10);
  EXPECT_EQ(Call<v1::DigestsReply>("Session/Digests", request).status().code(),
            StatusCode::kInvalidArgument);
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
  v1::CloseSessionRequest close;
  for (int i = 0; i < 4; ++i) close.set_session_id(Open(2).session_id());
  request.set_slots_per_head(2);
  EXPECT_EQ(Call<v1::OpenSessionReply>("Session/Open", request).status().code(),
            StatusCode::kResourceExhausted);
  EXPECT_TRUE(Call<v1::CloseSessionReply>("Session/Close", close).ok());
  EXPECT_EQ(Call<v1::CloseSessionReply>("Session/Close", close).status().code(),
            StatusCode::kNotFound);
  EXPECT_TRUE(Call<v1::OpenSessionReply>("Session/Open", request).ok());
}

}  // namespace
}  // namespace quire::kvserver::testing
