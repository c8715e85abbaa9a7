// SPDX-License-Identifier: Apache-2.0
#include "kvserver/session/session.h"

#include <gmock/gmock.h>

#include <numeric>

#include "common/base/checksum.h"
#include "kvserver/session/testing/session_fixture.h"

namespace quire::kvserver::testing {
namespace {

using ::testing::HasSubstr;
using Pages = std::vector<std::vector<uint32_t>>;

class SessionTest : public SessionFixture {
 protected:
  static LayerWant Want(uint32_t layer, Pages pages) { return {layer, std::move(pages), {}}; }
  LayerWant Query(uint32_t layer, uint32_t first, uint32_t end, uint32_t k) {
    LayerWant want{layer, {}, PageQuery{}};
    SeededRandom random(layer + 17);
    want.query->query.resize(spec_.num_query_heads * spec_.key_dim());
    for (float& value : want.query->query) value = random.Normal();
    want.query->ranges = {{.first_page = first, .end_page = end}};
    want.query->num_pages = k;
    return want;
  }
  std::shared_ptr<Session> SessionOver(const ContextRef& context, uint32_t slots) {
    return *sessions_.Find(kTenant, OpenSession(context, slots).id);
  }
};

TEST_F(SessionTest, ARecallOfEverythingYieldsTheBytesThatWerePut) {
  const ContextViewPtr sealed = SealedWith(6, 3);
  const auto open = OpenWith(3, sealed);  // 4 stored pages, then 5 in the tail.
  for (const ContextRef& ref : {ContextRef(sealed->chain_tip()), ContextRef(open.id)}) {
    const auto session = SessionOver(ref, 16);
    const ContextViewPtr view = session->view();
    std::vector<uint32_t> all(view->num_pages());
    std::iota(all.begin(), all.end(), 0u);
    RecallArgs args{1, 1, 0, {}};
    for (uint32_t layer = 0; layer < spec_.num_layers; ++layer) {
      args.layers.push_back(Want(layer, {all, all}));
    }
    const auto answer = session->Recall(args);
    ASSERT_TRUE(answer.ok()) << answer.status();
    size_t next = 0;
    for (const LayerPlacement& layer : answer->layers) {
      for (uint32_t head = 0; head < layer.heads.size(); ++head) {
        ASSERT_EQ(layer.heads[head].size(), all.size());
        for (const Placement& p : layer.heads[head]) {
          const uint32_t rows = TokensInPage(spec_, view->num_tokens, p.page);
          EXPECT_EQ(BytesOf(answer->units[next++]),
                    TestUnit(spec_, p.page, layer.layer, head, rows));
        }
      }
    }
    EXPECT_EQ(next, answer->units.size());
  }
}

TEST_F(SessionTest, OnlyTheDiffIsSentAndARepeatedRecallIsAnsweredAgain) {
  const auto session = SessionOver(SealedWith(8)->chain_tip(), 4);
  ASSERT_EQ(session->Recall({1, 1, 0, {Want(1, {{0, 1, 2, 3}, {4}})}})->units.size(), 5u);
  const RecallArgs second{1, 2, 1, {Want(1, {{1, 2, 3, 7}, {4}})}};
  const auto answer = session->Recall(second);
  ASSERT_EQ(answer->units.size(), 1u);
  EXPECT_EQ(answer->layers[0].heads[0], (std::vector<Placement>{{0, 2, 7, 0}}));
  const auto again = session->Recall(second);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->layers[0].heads[0], answer->layers[0].heads[0]);
  EXPECT_EQ(session->Recall({1, 2, 1, {Want(1, {{0, 1}, {}})}}).status().code(),
            StatusCode::kFailedPrecondition);
}

TEST_F(SessionTest, AFailedReadLeavesTheMapAsItWas) {
  const auto session = SessionOver(SealedWith(8)->chain_tip(), 4);
  const RecallArgs args{1, 1, 0, {Want(0, {{0, 1}, {2}})}};
  store_.FailReads(DataLoss("checksum"));
  EXPECT_EQ(session->Recall(args).status().code(), StatusCode::kDataLoss);
  store_.FailReads(OkStatus());
  EXPECT_EQ(session->Recall(args)->units.size(), 3u);
  EXPECT_TRUE(session->Ack(1, 1).ok());
}

TEST_F(SessionTest, SelectionByQueryEqualsTheWorkersFromTheSameDigests) {
  const auto open = OpenWith(7);
  for (const ContextRef& ref : {ContextRef(SealedWith(11, 1)->chain_tip()), ContextRef(open.id)}) {
    const auto session = SessionOver(ref, 4);
    const uint32_t end = 7;
    const LayerWant want = Query(2, 1, end, 3);
    const auto answer = session->Recall({1, 1, 0, {want}});
    ASSERT_TRUE(answer.ok()) << answer.status();

    const std::vector<uint32_t> layers = {2};
    const Slice digests = session->Digests(layers, 1, end)->Flatten();
    DigestBlocks worker(spec_, 0);
    std::vector<std::byte> padded(PageDigestBytes(spec_));  // Page 0, which is no candidate.
    padded.insert(padded.end(), digests.bytes.begin(), digests.bytes.end());
    const uint64_t block = spec_.segment_pages * PageDigestBytes(spec_);
    worker.Append({std::span<const std::byte>(padded).first(block), nullptr});
    worker.Append({std::span<const std::byte>(padded).subspan(block), nullptr});
    Selector selector(kernels::CpuReference());
    PageLists selected;
    ASSERT_TRUE(selector.Select(spec_, *want.query, std::span(&worker, 1), &selected).ok());
    for (uint32_t head = 0; head < 2; ++head) {
      EXPECT_THAT(answer->layers[0].selected[head],
                  ::testing::ElementsAreArray(selected.Head(head)));
      EXPECT_EQ(answer->layers[0].selected[head].size(), 3u);
      EXPECT_EQ(answer->layers[0].heads[head].size(), 3u);
    }
  }
}

TEST_F(SessionTest, AQueryForAllCandidatesNeedsNoDigests) {
  const auto session = SessionOver(SealedWith(4)->chain_tip(), 4);
  const auto answer = session->Recall({1, 1, 0, {Query(0, 1, 4, 1000)}});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->layers[0].selected, (Pages{{1, 2, 3}, {1, 2, 3}}));
}

TEST_F(SessionTest, PagesAppendedAfterTheOpeningCanBeRecalled) {
  const auto open = OpenWith(1);
  const auto session = SessionOver(open.id, 4);
  EXPECT_EQ(session->Recall({1, 1, 0, {Want(0, {{1}, {}})}}).status().code(),
            StatusCode::kInvalidArgument);
  ASSERT_TRUE(Append(*open.context, 1, 4).ok());
  const auto answer = session->Recall({1, 1, 0, {Want(0, {{1}, {4}})}});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(BytesOf(answer->units[1]), TestUnit(spec_, 4, 0, 1, spec_.page_tokens));
}

TEST_F(SessionTest, MalformedRecallsAreRefusedAndChangeNothing) {
  const auto session = SessionOver(SealedWith(4)->chain_tip(), 2);
  LayerWant short_query = Query(0, 0, 4, 2), bad_range = Query(0, 3, 2, 1), far = Query(0, 0, 5, 1);
  short_query.query->query.pop_back();
  for (const std::vector<LayerWant>& layers :
       std::vector<std::vector<LayerWant>>{{Want(3, {{}, {}})},
                                           {Want(0, {{}, {}}), Want(0, {{}, {}})},
                                           {Want(0, {{}})},
                                           {Want(0, {{0, 1, 2}, {}})},
                                           {Want(0, {{4}, {}})},
                                           {Query(0, 0, 4, 3)},
                                           {short_query},
                                           {bad_range},
                                           {far}}) {
    EXPECT_EQ(session->Recall({1, 1, 0, layers}).status().code(), StatusCode::kInvalidArgument);
  }
  EXPECT_TRUE(session->Recall({1, 1, 0, {Want(0, {{0, 1}, {3}})}}).ok());
}

TEST_F(SessionTest, TooLargeARecallIsRefusedNamingTheLimit) {
  const ContextViewPtr sealed = SealedWith(50);
  const auto session = SessionOver(sealed->chain_tip(), 50);
  std::vector<uint32_t> all(50);
  std::iota(all.begin(), all.end(), 0u);
  RecallArgs args{1, 1, 0, {Want(0, {all, all}), Want(1, {all, all}), Want(2, {all, all})}};
  const auto answer = session->Recall(args);  // 300 units of 256 bytes, over 65536.
  EXPECT_EQ(answer.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(Message(answer.status())), HasSubstr("65536"));
  args.layers.resize(1);
  EXPECT_TRUE(session->Recall(args).ok());
}

TEST_F(SessionTest, ResyncReplacesTheMap) {
  const auto session = SessionOver(SealedWith(8)->chain_tip(), 2);
  ASSERT_TRUE(session->Recall({1, 1, 0, {Want(0, {{0, 1}, {2}})}}).ok());
  std::vector<LayerSlots> layers;
  for (uint32_t layer = 0; layer < 3; ++layer) {
    layers.push_back({layer, {{5, -1}, {-1, -1}}, {{3, 0}, {0, 0}}});
  }
  EXPECT_EQ(session->Resync(1, 0, layers).code(), StatusCode::kFailedPrecondition);
  ASSERT_TRUE(session->Resync(2, 0, layers).ok());
  EXPECT_EQ(session->epoch(), 2u);
  EXPECT_EQ(session->Recall({1, 1, 0, {Want(0, {{}, {}})}}).status().code(),
            StatusCode::kFailedPrecondition);
  const auto answer = session->Recall({2, 1, 0, {Want(0, {{5, 6}, {}})}});
  EXPECT_EQ(answer->layers[0].heads[0], (std::vector<Placement>{{1, 1, 6, -1}}));
}

TEST_F(SessionTest, ResyncRefusesMapsThatCannotBe) {
  const auto session = SessionOver(SealedWith(4)->chain_tip(), 2);
  const LayerSlots good{0, {{-1, -1}, {-1, -1}}, {{0, 0}, {0, 0}}};
  const auto with = [&](auto change) {
    std::vector<LayerSlots> layers = {good, good, good};
    layers[1].layer = 1, layers[2].layer = 2;
    change(layers);
    return session->Resync(2, 0, layers).code();
  };
  using Layers = std::vector<LayerSlots>;
  EXPECT_EQ(with([](Layers& l) { l[0].pages[0] = {1, 1}; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(with([](Layers& l) { l[0].pages[0] = {4, -1}; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(with([](Layers& l) { l[0].pages[0] = {-2, -1}; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(with([](Layers& l) { l[0].pages[0] = {0}; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(with([](Layers& l) { l[0].generations.pop_back(); }), StatusCode::kInvalidArgument);
  EXPECT_EQ(with([](Layers& l) { l[2].layer = 9; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(with([](Layers& l) { l[2].layer = 1; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(with([](Layers& l) { l.pop_back(); }), StatusCode::kInvalidArgument);
  EXPECT_EQ(with([](Layers&) {}), StatusCode::kOk);
}

TEST_F(SessionTest, DigestsStayInsideTheContext) {
  const auto session = SessionOver(SealedWith(4)->chain_tip(), 2);
  const std::vector<uint32_t> layers = {0, 2};
  EXPECT_EQ(session->Digests(layers, 1, 4)->size_bytes(), 2 * 3 * PageDigestBytes(spec_));
  EXPECT_EQ(session->Digests(layers, 2, 2)->size_bytes(), 0u);
  EXPECT_FALSE(session->Digests(layers, 0, 5).ok());
  EXPECT_FALSE(session->Digests(layers, 3, 2).ok());
  EXPECT_FALSE(session->Digests(std::vector<uint32_t>{3}, 0, 1).ok());
  EXPECT_FALSE(session->Digests(std::vector<uint32_t>{0, 1, 2, 0}, 0, 1).ok());
}

TEST_F(SessionTest, OpeningChecksSpecSlotsLayersAndNumber) {
  const SegmentKey tip = SealedWith(4, 2)->chain_tip();
  KvSpec other = spec_;
  other.num_query_heads = 8;
  const auto mismatch = sessions_.Open(kTenant, {tip, other, 4, {}});
  EXPECT_EQ(mismatch.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Message(mismatch.status())), HasSubstr("num_query_heads"));
  EXPECT_FALSE(sessions_.Open(kTenant, {tip, spec_, 0, {}}).ok());
  EXPECT_FALSE(sessions_.Open(kTenant, {tip, spec_, 65537, {}}).ok());
  EXPECT_FALSE(sessions_.Open(kTenant, {tip, spec_, 4, {3}}).ok());
  EXPECT_FALSE(sessions_.Open(kTenant, {tip, spec_, 4, {1, 1}}).ok());
  EXPECT_EQ(sessions_.Open(kTenant, {uint64_t{7}, spec_, 4, {}}).status().code(),
            StatusCode::kNotFound);
  EXPECT_EQ(OpenSession(tip, 4).tail_tokens.size(), 2u);
  for (int i = 0; i < 3; ++i) OpenSession(tip, 4);
  EXPECT_EQ(sessions_.Open(kTenant, {tip, spec_, 4, {}}).status().code(),
            StatusCode::kResourceExhausted);
  clock_.Advance(std::chrono::minutes(11));
  EXPECT_TRUE(sessions_.Open(kTenant, {tip, spec_, 4, {}}).ok());
}

}  // namespace
}  // namespace quire::kvserver::testing
