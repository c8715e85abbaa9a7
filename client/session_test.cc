// SPDX-License-Identifier: Apache-2.0
//
// Sessions: numbering, acknowledgement, resynchronisation (promise 4: a stale reply is refused,
// never silently applied). What a reply may look like is in recall_codec_test.cc.
#include "client/session.h"

#include <string>
#include <vector>

#include "client/client_test_kit.h"
#include "quire/v1/session.pb.h"

namespace quire {
namespace {

using testing::KeyOf;
using testing::RandomPayload;

constexpr const char* kOpen = "quire.v1.Session/Open";
constexpr const char* kRecall = "quire.v1.Session/Recall";
constexpr const char* kResync = "quire.v1.Session/Resync";
constexpr const char* kAck = "quire.v1.Session/Ack";
constexpr const char* kClose = "quire.v1.Session/Close";
constexpr const char* kDigests = "quire.v1.Session/Digests";

class SessionTest : public testing::ClientTest {
 protected:
  SessionTest() : client_(MakeClient()) {}
  void SetUp() override {
    server_.Reply(kOpen, OpenReply(18));
    auto session = client_->OpenSession(KeyOf(3), Options());
    ASSERT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
  }

  Client::SessionOptions Options() const {
    return {.spec = spec_, .slots_per_head = 2, .managed_layers = {1}};
  }
  v1::OpenSessionReply OpenReply(uint64_t num_tokens) const {
    v1::OpenSessionReply reply;
    reply.set_session_id(77);
    reply.set_epoch(1);
    wire::ContextInfoToProto(testing::SealedContext(spec_, num_tokens), reply.mutable_context());
    for (uint64_t i = 0; i < num_tokens % spec_.page_tokens; ++i)
      reply.add_tail_tokens(40 + static_cast<int>(i));
    return reply;
  }
  /// Wants `page` at head 0 of layer 1 and nothing at head 1.
  std::vector<LayerWant> Want(uint32_t page) const {
    return {LayerWant{.layer = 1, .pages = {{page}, {}}}};
  }
  /// The reply that puts `page` into slot 0 of head 0, which held `replaced` before.
  void ReplyRecall(uint64_t sequence, uint64_t epoch, uint32_t page, uint32_t generation,
                   int32_t replaced) {
    v1::RecallReply reply;
    reply.set_sequence(sequence);
    reply.set_epoch(epoch);
    v1::LayerPlacement& layer = *reply.add_layers();
    layer.set_layer(1);
    v1::HeadPlacement& head = *layer.add_heads();
    layer.add_heads();
    head.add_slots(0);
    head.add_generations(generation);
    head.add_pages(page);
    head.add_replaced(replaced);
    const Payload payload = RandomPayload(UnitBytes(spec_), page);
    reply.add_unit_crc32c(testing::UnitChecksums(payload, UnitBytes(spec_))[0]);
    server_.Reply(kRecall, reply, payload);
  }
  v1::RecallRequest LastRecall() const {
    return server_.RequestOf<v1::RecallRequest>(server_.calls().size() - 1);
  }
  std::vector<std::string> MethodsSince(size_t first) const {
    std::vector<std::string> methods;
    for (size_t i = first; i < server_.calls().size(); ++i)
      methods.push_back(server_.calls()[i].method);
    return methods;
  }

  const std::unique_ptr<Client> client_;
  std::unique_ptr<ClientSession> session_;
};

TEST_F(SessionTest, OpeningTellsContextAndTail) {
  EXPECT_EQ(session_->context().num_tokens, 18u);
  EXPECT_EQ(std::vector<TokenId>(session_->tail_tokens().begin(), session_->tail_tokens().end()),
            (std::vector<TokenId>{40, 41}));
  EXPECT_EQ(session_->slots_per_head(), 2u);
}

TEST_F(SessionTest, AnAppliedRecallIsAcknowledgedByTheNext) {
  ReplyRecall(1, 1, 3, 1, -1);
  const auto first = session_->Recall(Want(3));
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(LastRecall().sequence(), 1u);
  EXPECT_EQ(LastRecall().acked_sequence(), 0u);
  ASSERT_EQ(first->placements.size(), 1u);
  EXPECT_EQ(first->placements[0].page, 3u);
  EXPECT_EQ(testing::Bytes(first->payload), testing::RandomBytes(UnitBytes(spec_), 3));
  session_->Applied(*first);

  ReplyRecall(2, 1, 4, 2, 3);
  ASSERT_TRUE(session_->Recall(Want(4)).ok());
  EXPECT_EQ(LastRecall().sequence(), 2u);
  EXPECT_EQ(LastRecall().acked_sequence(), 1u);
}

TEST_F(SessionTest, ARecallThatWasNotAppliedIsRepeatedUnderItsNumber) {
  ReplyRecall(1, 1, 3, 1, -1);
  ASSERT_TRUE(session_->Recall(Want(3)).ok());
  ReplyRecall(1, 1, 4, 1, -1);
  const auto again = session_->Recall(Want(4));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(LastRecall().sequence(), 1u);
  EXPECT_EQ(LastRecall().acked_sequence(), 0u);
}

TEST_F(SessionTest, ALostReplyIsAskedForAgainWithTheSameNumber) {
  server_.Fail(kRecall, Unavailable("the reply was lost"));
  ReplyRecall(1, 1, 3, 1, -1);
  ASSERT_TRUE(session_->Recall(Want(3)).ok());
  EXPECT_EQ(LastRecall().sequence(), 1u);
}

TEST_F(SessionTest, AStaleSessionIsResynchronisedWithTheWorkersOwnMapInTheSameCall) {
  ReplyRecall(1, 1, 3, 1, -1);
  session_->Applied(*session_->Recall(Want(3)));
  const size_t before = server_.calls().size();
  server_.Fail(kRecall, FailedPrecondition("epoch 1 is over"));
  server_.Reply(kResync, v1::ResyncReply());
  ReplyRecall(2, 2, 4, 2, 3);
  const auto result = session_->Recall(Want(4));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(MethodsSince(before), (std::vector<std::string>{kRecall, kResync, kRecall}));
  const auto resync = server_.RequestOf<v1::ResyncRequest>(before + 1);
  EXPECT_EQ(resync.session_id(), 77u);
  EXPECT_EQ(resync.epoch(), 2u);
  EXPECT_EQ(resync.sequence(), 1u);
  ASSERT_EQ(resync.layers_size(), 1);
  EXPECT_EQ(resync.layers(0).layer(), 1u);
  ASSERT_EQ(resync.layers(0).heads_size(), 2);
  EXPECT_EQ(resync.layers(0).heads(0).pages(0), 3);
  EXPECT_EQ(resync.layers(0).heads(0).generations(0), 1u);
  EXPECT_EQ(resync.layers(0).heads(0).pages(1), -1);
  EXPECT_EQ(LastRecall().epoch(), 2u);
}

TEST_F(SessionTest, AResyncWhoseReplyWasLostIsRepeatedUnderAHigherEpoch) {
  server_.Fail(kRecall, FailedPrecondition("stale"));
  server_.Fail(kResync, Unavailable("the reply was lost"));
  server_.Fail(kResync, FailedPrecondition("epoch 2 is not above 2"));
  server_.Reply(kResync, v1::ResyncReply());
  ReplyRecall(1, 3, 4, 1, -1);
  const auto result = session_->Recall(Want(4));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(LastRecall().epoch(), 3u);
}

TEST_F(SessionTest, AServerThatStaysStaleIsReportedAndTheNextRecallResynchronisesFirst) {
  server_.Fail(kRecall, FailedPrecondition("stale"));
  server_.Reply(kResync, v1::ResyncReply());
  server_.Fail(kRecall, FailedPrecondition("stale still"));
  EXPECT_TRUE(absl::IsFailedPrecondition(session_->Recall(Want(4)).status()));

  const size_t before = server_.calls().size();
  server_.Reply(kResync, v1::ResyncReply());
  ReplyRecall(1, 3, 4, 1, -1);
  ASSERT_TRUE(session_->Recall(Want(4)).ok());
  EXPECT_EQ(MethodsSince(before), (std::vector<std::string>{kResync, kRecall}));
}

TEST_F(SessionTest, AReplyOfAnotherEpochIsNeverAppliedAndTheNextRecallResynchronises) {
  ReplyRecall(1, /*epoch=*/9, 3, 1, -1);
  EXPECT_TRUE(absl::IsDataLoss(session_->Recall(Want(3)).status()));
  const size_t before = server_.calls().size();
  server_.Reply(kResync, v1::ResyncReply());
  ReplyRecall(1, 2, 3, 1, -1);
  ASSERT_TRUE(session_->Recall(Want(3)).ok());
  EXPECT_EQ(MethodsSince(before), (std::vector<std::string>{kResync, kRecall}));
}

TEST_F(SessionTest, AResultAppliedTwiceCountsOnce) {
  ReplyRecall(1, 1, 3, 1, -1);
  const auto first = session_->Recall(Want(3));
  session_->Applied(*first);
  session_->Applied(*first);
  ReplyRecall(2, 1, 4, 2, 3);
  ASSERT_TRUE(session_->Recall(Want(4)).ok());
  EXPECT_EQ(LastRecall().acked_sequence(), 1u);
}

TEST_F(SessionTest, AckIsSentOnlyForWhatIsNotAcknowledgedYet) {
  const size_t before = server_.calls().size();
  EXPECT_TRUE(session_->Ack().ok());
  EXPECT_EQ(server_.calls().size(), before);
  ReplyRecall(1, 1, 3, 1, -1);
  session_->Applied(*session_->Recall(Want(3)));
  server_.Reply(kAck, v1::AckReply());
  EXPECT_TRUE(session_->Ack().ok());
  EXPECT_TRUE(session_->Ack().ok());
  EXPECT_EQ(MethodsSince(before), (std::vector<std::string>{kRecall, kAck}));
  EXPECT_EQ(server_.RequestOf<v1::AckRequest>(server_.calls().size() - 1).sequence(), 1u);
}

TEST_F(SessionTest, DigestsMustHaveTheSizeAskedFor) {
  const std::vector<uint32_t> layers = {0, 1};
  const uint64_t bytes = 2 * 3 * 2 * 2 * 8 * 4;  // [layers][pages][n_kv][2][d] of 4 bytes
  server_.Reply(kDigests, v1::DigestsReply(), RandomPayload(bytes, 1));
  EXPECT_EQ(session_->Digests(layers, 1, 4)->size_bytes(), bytes);
  server_.Reply(kDigests, v1::DigestsReply(), RandomPayload(bytes - 4, 1));
  EXPECT_TRUE(absl::IsDataLoss(session_->Digests(layers, 1, 4).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(session_->Digests(layers, 4, 4).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(session_->Digests({}, 0, 4).status()));
}

TEST_F(SessionTest, ClosingASessionThatIsGoneIsFineAndUseAfterIsNot) {
  server_.Fail(kClose, NotFound("no session 77"));
  EXPECT_TRUE(session_->Close().ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(session_->Close()));
  EXPECT_TRUE(absl::IsFailedPrecondition(session_->Recall(Want(1)).status()));
  const size_t before = server_.calls().size();
  session_.reset();
  EXPECT_EQ(server_.calls().size(), before);
}

TEST_F(SessionTest, TheDestructorClosesAndGivesUpWithinASecond) {
  for (int i = 0; i < 20; ++i) server_.Fail(kClose, Unavailable("down"));
  const TimePoint start = clock_.Now();
  session_.reset();
  EXPECT_EQ(server_.calls().back().method, kClose);
  EXPECT_LE(clock_.Now() - start, std::chrono::seconds(1));
}

TEST_F(SessionTest, OpenRefusesImpossibleOptionsAndLyingReplies) {
  const size_t before = server_.calls().size();
  const auto refused = [&](Client::SessionOptions options) {
    return absl::IsInvalidArgument(client_->OpenSession(KeyOf(3), options).status());
  };
  EXPECT_TRUE(refused({.spec = {}, .slots_per_head = 2}));
  EXPECT_TRUE(refused({.spec = spec_, .slots_per_head = 0}));
  EXPECT_TRUE(refused({.spec = spec_, .slots_per_head = 70000}));
  EXPECT_TRUE(refused({.spec = spec_, .slots_per_head = 2, .managed_layers = {2}}));
  EXPECT_TRUE(refused({.spec = spec_, .slots_per_head = 2, .managed_layers = {1, 1}}));
  EXPECT_EQ(server_.calls().size(), before);

  const auto lied = [&](const v1::OpenSessionReply& reply) {
    server_.Reply(kOpen, reply);
    return absl::IsDataLoss(client_->OpenSession(KeyOf(3), Options()).status());
  };
  v1::OpenSessionReply other_spec = OpenReply(18);
  other_spec.mutable_context()->mutable_spec()->set_model("other");
  EXPECT_TRUE(lied(other_spec));
  v1::OpenSessionReply no_tail = OpenReply(18);
  no_tail.clear_tail_tokens();
  EXPECT_TRUE(lied(no_tail));
}

}  // namespace
}  // namespace quire
