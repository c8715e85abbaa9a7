// SPDX-License-Identifier: Apache-2.0
#include "kvserver/session/session.h"

#include <gmock/gmock.h>

#include <numeric>

#include "common/base/memory/checksum.h"
#include "common/base/retry_hint.h"
#include "kvserver/session/testing/session_fixture.h"
#include "quire/page_name.h"

namespace quire::kvserver::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SessionTest : public SessionFixture {
 protected:
  /// A want of one layer, after `applied`.
  static WantedLayers Want(uint32_t layer, PageLists pages, uint64_t applied = 0,
                           uint32_t sequence = 0) {
    return {{sequence, layer, {applied}}, std::move(pages), {}};
  }
  /// A want of layers from `first_layer` on.
  static WantedLayers Layers(uint32_t first_layer, std::vector<uint64_t> applied, PageLists pages) {
    return {{0, first_layer, std::move(applied)}, std::move(pages), {}};
  }
  WantedLayers Query(uint32_t layer, uint32_t num_layers, std::vector<CandidatePages> ranges,
                     uint32_t k) {
    WantedLayers want{{0, layer, std::vector<uint64_t>(num_layers)}, {}, QueryWant{}};
    SeededRandom random(layer + 17);
    want.query->queries.resize(size_t{num_layers} * spec_.num_query_heads * spec_.key_dim());
    for (float& value : want.query->queries) value = random.Normal();
    want.query->shape.ranges = std::move(ranges);
    want.query->shape.num_pages = k;
    return want;
  }
  std::shared_ptr<Session> Find(const SessionManager::Opened& opened) {
    return *sessions_.Find(kTenant, opened.id);
  }
  std::shared_ptr<Session> SessionOver(const ContextRef& context, uint32_t slots) {
    return Find(OpenSession(context, slots));
  }
  static Status Recall(Session& session, const RecallArgs& args, CollectingSink* sink = nullptr,
                       const ReplyShape& reply = {}) {
    CollectingSink own;
    return session.Recall(args, reply, sink != nullptr ? *sink : own);
  }
  static StatusCode CodeOf(Session& session, const RecallArgs& args) {
    return Recall(session, args).code();
  }
  /// The reply of a recall that succeeds.
  static CollectingSink Answer(Session& session, const RecallArgs& args,
                               const ReplyShape& reply = {}) {
    CollectingSink sink;
    EXPECT_EQ(Recall(session, args, &sink, reply), OkStatus());
    return sink;
  }
  static std::vector<std::byte> BytesOf(const Slice& slice) {
    return {slice.bytes.begin(), slice.bytes.end()};
  }
  std::vector<std::byte> WholeUnit(uint32_t page, uint32_t layer, uint32_t head) const {
    return TestUnit(spec_, page, layer, head, spec_.page_tokens);
  }
  static PageLists Everything(uint32_t pages) {
    std::vector<uint32_t> all(pages);
    std::iota(all.begin(), all.end(), 0u);
    PageLists lists;
    lists.AppendHead(all);
    lists.RepeatHead();
    return lists;
  }
};

TEST_F(SessionTest, ARecallOfEverythingYieldsTheBytesThatWerePut) {
  const ContextViewPtr sealed = SealedWith(6, 3);
  const auto open = OpenWith(3, sealed);  // 4 stored pages, then 5 in the tail.
  for (const ContextRef& ref : {ContextRef(sealed->chain_tip()), ContextRef(open.id)}) {
    const auto opened = OpenSession(ref, 16);
    const auto session = Find(opened);
    const ContextViewPtr view = opened.sequences[0][0].view;
    const RecallArgs args{1, 1, {Layers(0, {0, 0, 0}, Everything(view->num_pages()))}};
    const CollectingSink sink = Answer(*session, args);
    const std::vector<Slice> units = sink.units();
    size_t next = 0;
    for (const LanePlacement& lane : sink.lanes()) {
      EXPECT_THAT(lane.placed.counts, ElementsAre(view->num_pages(), view->num_pages()));
      for (size_t i = 0; i < lane.placed.size(); ++i) {
        const uint32_t head = i < view->num_pages() ? 0 : 1;
        const uint32_t page = lane.placed.pages[i];
        const uint32_t rows = TokensInPage(spec_, view->num_tokens, page);
        const auto expected = TestUnit(spec_, page, lane.layer, head, rows);
        EXPECT_EQ(BytesOf(units[next++]), expected);
        EXPECT_EQ(lane.placed.crc32c[i], Crc32c(expected));
      }
    }
    EXPECT_EQ(next, 3 * 2 * view->num_pages());
    EXPECT_EQ(next, units.size());
  }
}

TEST_F(SessionTest, OnlyTheDiffIsSentAndWhatWasNotAppliedIsSentAgain) {
  const auto session = SessionOver(SealedWith(8)->chain_tip(), 4);
  EXPECT_EQ(Answer(*session, {1, 1, {Want(1, {{0, 1, 2, 3}, {4}})}}).units().size(), 5u);
  const CollectingSink second = Answer(*session, {1, 2, {Want(1, {{1, 2, 3, 7}, {4}}, 1)}});
  ASSERT_EQ(second.units().size(), 1u);
  EXPECT_THAT(second.lanes()[0].placed.counts, ElementsAre(1, 0));
  EXPECT_THAT(second.lanes()[0].placed.pages, ElementsAre(7));
  EXPECT_THAT(second.lanes()[0].placed.generations, ElementsAre(2));
  EXPECT_THAT(second.lanes()[0].placed.replaced, ElementsAre(0));
  // The reply was lost: the worker retries, even with other pages.
  const CollectingSink third = Answer(*session, {1, 3, {Want(1, {{0, 7}, {}}, 1)}});
  EXPECT_THAT(third.lanes()[0].placed.pages, ElementsAre(7));
  EXPECT_THAT(third.lanes()[0].placed.generations, ElementsAre(2));
  EXPECT_EQ(CodeOf(*session, {1, 2, {Want(1, {{0}, {}}, 1)}}), StatusCode::kFailedPrecondition);
  EXPECT_EQ(CodeOf(*session, {1, 4, {Want(1, {{0}, {}}, 2)}}), StatusCode::kFailedPrecondition);
  EXPECT_EQ(CodeOf(*session, {2, 4, {Want(1, {{0}, {}}, 3)}}), StatusCode::kFailedPrecondition);
}

TEST_F(SessionTest, LanesHaveTheirOwnOrderAndARefusedRecallTouchesNone) {
  const auto opened = OpenSession(SealedWith(8)->chain_tip(), 4, 2);
  const auto session = Find(opened);
  Answer(*session, {1, 5, {Want(0, {{1}, {}}, 0, 1)}});
  Answer(*session, {1, 2, {Want(0, {{1}, {}}, 0, 0)}});
  // One of the two is out of order: neither is accepted.
  EXPECT_EQ(CodeOf(*session, {1, 6, {Want(0, {{2}, {}}, 2, 0), Want(0, {{2}, {}}, 3, 1)}}),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ(CodeOf(*session, {1, 4, {Want(0, {{2}, {}}, 2, 0), Want(0, {{2}, {}}, 0, 1)}}),
            StatusCode::kFailedPrecondition);
  const CollectingSink sink =
      Answer(*session, {1, 6, {Want(0, {{1, 2}, {}}, 2, 0), Want(0, {{1, 2}, {}}, 0, 1)}});
  EXPECT_THAT(sink.lanes()[0].placed.pages, ElementsAre(2));
  EXPECT_THAT(sink.lanes()[1].placed.pages, ElementsAre(1, 2)) << "exchange 5 was not applied";
}

TEST_F(SessionTest, AFailedReadLeavesTheLanesAsTheyWere) {
  const auto session = SessionOver(SealedWith(8)->chain_tip(), 4);
  const RecallArgs args{1, 1, {Want(0, {{0, 1}, {2}}), Want(1, {{0}, {}})}};
  store_.FailReads(DataLoss("checksum"));
  EXPECT_EQ(CodeOf(*session, args), StatusCode::kDataLoss);
  store_.FailReads(OkStatus());
  EXPECT_EQ(Answer(*session, args).units().size(), 4u) << "the same number may come again";
}

TEST_F(SessionTest, PartsAreWholeLanesAndTheFirstLayerLeavesFirst) {
  const auto session = SessionOver(SealedWith(8)->chain_tip(), 8);
  const RecallArgs args{1, 1, {Layers(0, {0, 0, 0}, {{0, 1, 2}, {3}})}};
  const uint64_t lane_bytes = 4 * quire::UnitBytes(spec_);
  const CollectingSink each = Answer(*session, args, {.max_parts = 10, .part_bytes = 1});
  ASSERT_EQ(each.parts().size(), 3u);
  for (uint32_t layer = 0; layer < 3; ++layer) {
    ASSERT_EQ(each.parts()[layer].lanes.size(), 1u);
    EXPECT_EQ(each.parts()[layer].lanes[0].layer, layer);
    EXPECT_EQ(each.parts()[layer].payload.size_bytes(), lane_bytes);
  }
  RecallArgs again = args;
  again.exchange = 2;
  const CollectingSink two =
      Answer(*session, again, {.max_parts = 10, .part_bytes = lane_bytes + 1});
  ASSERT_EQ(two.parts().size(), 2u);
  EXPECT_EQ(two.parts()[0].lanes.size(), 2u);
  again.exchange = 3;
  EXPECT_EQ(Answer(*session, again, {.max_parts = 2, .part_bytes = 1}).parts()[1].lanes.size(), 2u);
  again.exchange = 4;
  EXPECT_EQ(Answer(*session, again, {.max_parts = 1, .part_bytes = 1}).parts().size(), 1u);
  const CollectingSink nothing = Answer(*session, {1, 5, {}});
  ASSERT_EQ(nothing.parts().size(), 1u);
  EXPECT_TRUE(nothing.parts()[0].lanes.empty());
}

TEST_F(SessionTest, ARecallStopsBetweenLanesWhenNobodyWaitsAndWhatWasWrittenIsPending) {
  const auto session = SessionOver(SealedWith(8)->chain_tip(), 8);
  const RecallArgs args{1, 1, {Layers(0, {0, 0, 0}, {{0, 1}, {3}})}};
  CollectingSink sink;
  sink.wanted = [](size_t asked) {
    return asked < 2 ? OkStatus() : Status(StatusCode::kCancelled, "given up");
  };
  const ReplyShape reply{.max_parts = 10, .part_bytes = 1};
  EXPECT_EQ(session->Recall(args, reply, sink).code(), StatusCode::kCancelled);
  EXPECT_EQ(sink.parts().size(), 2u);
  // The worker applied only layer 0.
  const RecallArgs next{1, 2, {Layers(0, {1, 0, 0}, {{0, 1}, {3}})}};
  const CollectingSink answer = Answer(*session, next);
  EXPECT_EQ(answer.lanes()[0].placed.size(), 0u);
  EXPECT_EQ(answer.lanes()[1].placed.size(), 3u);
  EXPECT_EQ(answer.lanes()[2].placed.size(), 3u);
}

TEST_F(SessionTest, APartWhoseWriteFailedMayHaveArrived) {
  const auto session = SessionOver(SealedWith(8)->chain_tip(), 8);
  const RecallArgs args{1, 1, {Layers(0, {0, 0}, {{0, 1}, {3}})}};
  CollectingSink sink;
  sink.on_write = [](const CollectingSink::Part&) {
    return Status(StatusCode::kUnavailable, "gone");
  };
  const ReplyShape reply{.max_parts = 10, .part_bytes = 1};
  EXPECT_EQ(session->Recall(args, reply, sink).code(), StatusCode::kUnavailable);
  EXPECT_EQ(CodeOf(*session, {1, 2, {Want(0, {{0, 1}, {3}}, 1)}}), StatusCode::kOk);
  EXPECT_EQ(CodeOf(*session, {1, 3, {Want(1, {{0, 1}, {3}}, 1)}}), StatusCode::kFailedPrecondition);
}

TEST_F(SessionTest, ARetryHintIsGivenOnlyBeforeTheFirstPart) {
  const auto session = SessionOver(SealedWith(8)->chain_tip(), 8);
  const Status busy = WithRetryAfter(ResourceExhausted("busy"), std::chrono::milliseconds(5));
  const ReplyShape reply{.max_parts = 10, .part_bytes = 1};
  RecallArgs args{1, 1, {Layers(0, {0, 0}, {{0, 1}, {3}})}};
  store_.FailReads(busy);
  EXPECT_TRUE(RetryAfter(Recall(*session, args, nullptr, reply)));
  store_.FailReads(OkStatus());
  CollectingSink sink;
  sink.on_write = [&](const CollectingSink::Part&) {
    store_.FailReads(busy);
    return OkStatus();
  };
  const Status late = session->Recall(args, reply, sink);
  EXPECT_EQ(late.code(), StatusCode::kResourceExhausted);
  EXPECT_FALSE(RetryAfter(late));
}

TEST_F(SessionTest, PlacesAreThoseOfTheSlotsInTheLanding) {
  const auto opened = sessions_.Open(
      kTenant,
      {{{{{SealedWith(8)->chain_tip()}}}, {{{SealedWith(8)->chain_tip()}}}}, spec_, 4, {2, 0}});
  ASSERT_TRUE(opened.ok()) << opened.status();
  RecallArgs args{1, 1, {Want(0, {{5}, {6, 7}}, 0, 1)}, true};
  const auto session = Find(*opened);
  const uint64_t first_slot = ((1 * 2 + 1) * 2 + 0) * 4, unit = quire::UnitBytes(spec_);
  EXPECT_THAT(Answer(*session, args).parts()[0].places,
              ElementsAre(first_slot * unit, (first_slot + 4) * unit, (first_slot + 5) * unit));
  args.exchange = 2;
  args.place = false;
  EXPECT_TRUE(Answer(*session, args).parts()[0].places.empty());
}

class ValuesTest : public SessionTest {
 protected:
  std::shared_ptr<Session> SessionOfValues(const ContextRef& context, uint32_t slots) {
    const auto opened = sessions_.Open(kTenant, {.sequences = {{{{context}}}},
                                                 .spec = spec_,
                                                 .slots_per_head = slots,
                                                 .managed_layers = {},
                                                 .part = UnitPart::kValues});
    EXPECT_TRUE(opened.ok()) << opened.status();
    return Find(*opened);
  }
  const uint64_t half_ = ValueOffsetBytes(spec_);
};

TEST_F(ValuesTest, ValuesComeWithTheChecksumsOfTheValues) {
  const auto open = OpenWith(3, SealedWith(6, 3));  // Stored pages, and some in the tail.
  const auto session = SessionOfValues(open.id, 16);
  const uint32_t pages = open.context->view()->num_pages();
  const CollectingSink sink = Answer(*session, {1, 1, {Layers(0, {0, 0, 0}, Everything(pages))}});
  const std::vector<Slice> units = sink.units();
  ASSERT_EQ(units.size(), 3 * 2 * pages);
  size_t next = 0;
  for (const LanePlacement& lane : sink.lanes()) {
    for (size_t i = 0; i < lane.placed.size(); ++i) {
      const uint32_t page = lane.placed.pages[i];
      const uint32_t rows = TokensInPage(spec_, open.context->view()->num_tokens, page);
      auto expected = TestUnit(spec_, page, lane.layer, i < pages ? 0 : 1, rows);
      expected.erase(expected.begin(), expected.begin() + static_cast<std::ptrdiff_t>(half_));
      EXPECT_EQ(BytesOf(units[next++]), expected);
      EXPECT_EQ(lane.placed.crc32c[i], Crc32c(expected));
    }
  }
}

TEST_F(ValuesTest, WhatIsPlacedIsThatOfAWholeSessionAndPlacesAreOfHalves) {
  const SegmentKey tip = SealedWith(8)->chain_tip();
  const auto values = SessionOfValues(tip, 4);
  const auto whole = SessionOver(tip, 4);
  uint64_t applied = 0;
  for (const PageLists& pages : {PageLists{{0, 1, 2, 3}, {4}}, PageLists{{1, 2, 3, 7}, {4, 5}}}) {
    const RecallArgs args{1, applied + 1, {Want(1, pages, applied)}, true};
    const CollectingSink halves = Answer(*values, args), wholes = Answer(*whole, args);
    const PlacedUnits placed = halves.lanes()[0].placed;
    const PlacedUnits expected = wholes.lanes()[0].placed;
    EXPECT_EQ(placed.slots, expected.slots);
    EXPECT_EQ(placed.generations, expected.generations);
    EXPECT_EQ(placed.pages, expected.pages);
    EXPECT_EQ(placed.replaced, expected.replaced);
    EXPECT_EQ(halves.parts()[0].payload.size_bytes(), placed.size() * half_);
    std::vector<uint64_t> places = wholes.parts()[0].places;
    for (uint64_t& place : places) place /= 2;
    EXPECT_EQ(halves.parts()[0].places, places);
    ++applied;
  }
}

TEST_F(ValuesTest, UnitsThatTheWorkerHoldsHaveNoChecksum) {
  const auto session = SessionOfValues(SealedWith(8)->chain_tip(), 4);
  WantedLayers want = Want(0, {{1, 2}, {3}});
  want.held = {{2}, {}};
  const CollectingSink sink = Answer(*session, {1, 1, {want}});
  EXPECT_EQ(sink.units().size(), 2u);
  EXPECT_EQ(sink.lanes()[0].placed.crc32c[1], 0u);
  EXPECT_EQ(sink.lanes()[0].placed.crc32c[2], Crc32c(sink.units()[1].bytes));
}

TEST_F(ValuesTest, MoreOfThemFitInAPart) {
  const SegmentKey tip = SealedWith(50)->chain_tip();
  const RecallArgs args{1, 1, {Layers(0, {0, 0, 0}, Everything(50))}};
  EXPECT_EQ(CodeOf(*SessionOver(tip, 50), args), StatusCode::kResourceExhausted);
  EXPECT_EQ(CodeOf(*SessionOfValues(tip, 50), args), StatusCode::kOk);
}

TEST_F(ValuesTest, AUnitWithoutValuesIsRefused) {
  KvSpec mla = spec_;
  mla.attention = AttentionKind::kMla;
  mla.num_kv_heads = 1;
  mla.head_dim = 0;
  mla.latent_dim = 16;
  mla.latent_rope_dim = 8;
  SessionManager::OpenArgs args{{{{{SealedWith(1)->chain_tip()}}}}, mla, 4, {}};
  args.part = UnitPart::kValues;
  const Status refused = sessions_.Open(kTenant, args).status();
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Message(refused)), HasSubstr("unit_part"));
}

// Promise 2: a receiver of values compares them with the checksum derived from the store's.
TEST_F(ValuesTest, AnyByteOfKeysOrValuesThatHasChangedMakesTheChecksumWrong) {
  const UnitCut cut(spec_, UnitPart::kValues, {});
  const std::vector<std::byte> stored = WholeUnit(3, 1, 0);
  for (size_t at = 0; at < stored.size(); ++at) {
    std::vector<std::byte> read = stored;
    read[at] ^= std::byte{0x10};
    const OutboundBytes sent = cut.Of({Slice{read, nullptr}, Crc32c(stored)});
    EXPECT_EQ(sent.slice.bytes.size(), half_);
    EXPECT_NE(sent.crc32c, Crc32c(sent.slice.bytes)) << at;
  }
}

TEST_F(SessionTest, SelectionByQueryEqualsTheWorkersFromTheSameDigests) {
  const auto open = OpenWith(7);
  for (const ContextRef& ref : {ContextRef(SealedWith(11, 1)->chain_tip()), ContextRef(open.id)}) {
    const auto session = SessionOver(ref, 4);
    const WantedLayers want = Query(1, 2, {{.first_page = 1, .end_page = 7}}, 3);
    const CollectingSink sink = Answer(*session, {1, 1, {want}});
    Selector selector(kernels::CpuReference());
    for (const uint32_t layer : {1u, 2u}) {
      const std::vector<uint32_t> layers = {layer};
      const Slice digests = session->Digests(0, 0, layers, 1, 7)->Flatten();
      DigestBlocks worker(spec_, 0);
      std::vector<std::byte> padded(PageDigestBytes(spec_));  // Page 0, which is not a candidate.
      padded.insert(padded.end(), digests.bytes.begin(), digests.bytes.end());
      const uint64_t block = spec_.segment_pages * PageDigestBytes(spec_);
      worker.Append({std::span<const std::byte>(padded).first(block), nullptr});
      worker.Append({std::span<const std::byte>(padded).subspan(block), nullptr});
      PageQuery query = want.query->shape;
      const size_t row = want.query->queries.size() / 2;
      query.query.assign(want.query->queries.begin() + static_cast<int>((layer - 1) * row),
                         want.query->queries.begin() + static_cast<int>(layer * row));
      PageLists expected;
      ASSERT_TRUE(selector.Select(spec_, query, std::span(&worker, 1), &expected).ok());
      EXPECT_EQ(sink.lanes()[layer - 1].selected, expected);
      EXPECT_THAT(sink.lanes()[layer - 1].placed.counts, ElementsAre(3, 3));
    }
  }
}

TEST_F(SessionTest, EveryKindOfDigestSelectsAtTheServerAsAtTheWorker) {
  const ContextViewPtr sealed = SealedWith(9, 1);
  const auto open = OpenWith(5, sealed);  // Pages 0..13, of which the last two are in memory.
  const auto session =
      Find(OpenSession({{{{sealed->chain_tip(), 40}, {open.id}, {open.id, -9}}}}, 4));
  const std::vector<CandidatePages> ranges = {{.member = 0, .first_page = 1, .end_page = 9},
                                              {.member = 1, .first_page = 0, .end_page = 14},
                                              {.member = 2, .first_page = 5, .end_page = 14}};
  Selector selector(kernels::CpuReference());
  uint64_t exchange = 0;
  for (const DigestKind kind : kSelectingKinds) {
    for (int pooling = 1; pooling <= 7; ++pooling) {
      WantedLayers want = Query(1, 1, ranges, 4);
      want.query->shape.digest = kind;
      want.query->shape.pooling = static_cast<kernels::Pooling>(pooling);
      const CollectingSink sink = Answer(*session, {1, ++exchange, {want}});
      PageQuery query = want.query->shape;
      query.query = want.query->queries;
      query.ranges[0].position_offset = 40;
      query.ranges[2].position_offset = -9;
      std::vector<Slice> fetched;
      std::vector<DigestBlocks> worker;
      KvSpec one_block = spec_;
      one_block.segment_pages = 256;
      for (const CandidatePages& range : ranges) {
        const std::vector<uint32_t> layers = {1};
        const auto digests = session->Digests(0, range.member, layers, 0, range.end_page, kind);
        ASSERT_TRUE(digests.ok()) << digests.status();
        fetched.push_back(digests->Flatten());
        ASSERT_EQ(fetched.back().bytes.size(), range.end_page * PageDigestBytes(spec_, kind));
        worker.emplace_back(one_block, 0, kind).Append(fetched.back());
      }
      PageLists expected;
      ASSERT_TRUE(selector.Select(one_block, query, worker, &expected).ok());
      EXPECT_EQ(sink.lanes()[0].selected, expected)
          << "kind " << static_cast<int>(kind) << " pooling " << pooling;
    }
  }
  EXPECT_EQ(session->Digests(0, 0, std::vector<uint32_t>{1}, 0, 1, static_cast<DigestKind>(8))
                .status()
                .code(),
            StatusCode::kInvalidArgument);
}

TEST_F(SessionTest, TheStoreIsToldHowUrgentARecallIs) {
  const auto session = SessionOver(SealedWith(8)->chain_tip(), 4);
  RecallArgs args{1, 1, {Want(0, {{0}, {1}})}};
  args.priority = Priority::kCorrection;
  (void)Answer(*session, args);
  EXPECT_EQ(store_.last_priority(), Priority::kCorrection);
  args = {1, 2, {Query(1, 1, {{.first_page = 0, .end_page = 8}}, 2)}};
  args.priority = Priority::kPrefetch;
  (void)Answer(*session, args);
  EXPECT_EQ(store_.last_priority(), Priority::kPrefetch);
}

TEST_F(SessionTest, AQueryForAllCandidatesNeedsNoDigests) {
  const auto session = SessionOver(SealedWith(4)->chain_tip(), 4);
  const CollectingSink sink =
      Answer(*session, {1, 1, {Query(0, 1, {{.first_page = 1, .end_page = 4}}, 1000)}});
  EXPECT_EQ(sink.lanes()[0].selected, (PageLists{{1, 2, 3}, {1, 2, 3}}));
}

TEST_F(SessionTest, DigestsAreHeldForTheSessionAndFollowAContextThatGrows) {
  const auto open = OpenWith(7);  // One stored segment, three pages in memory.
  const auto opened = OpenSession(open.id, 4);
  const auto session = Find(opened);
  const auto selected = [&](uint64_t exchange, uint32_t first_page, uint32_t end_page) {
    const WantedLayers want = Query(1, 1, {{.first_page = first_page, .end_page = end_page}}, 2);
    return Answer(*session, {1, exchange, {want}}).lanes()[0].selected;
  };
  const auto fresh = [&](uint32_t first_page, uint32_t end_page) {
    const auto other = OpenSession(open.id, 4);
    const WantedLayers want = Query(1, 1, {{.first_page = first_page, .end_page = end_page}}, 2);
    const PageLists pages = Answer(*Find(other), {1, 1, {want}}).lanes()[0].selected;
    sessions_.Close(kTenant, other.id);
    return pages;
  };
  const PageLists before = selected(1, 0, 7);
  ASSERT_TRUE(Append(*open.context, 7, 6).ok());
  for (const auto& [first, end] : {std::pair(0u, 7u), {0u, 13u}, {6u, 13u}, {9u, 13u}}) {
    EXPECT_EQ(selected(10 + first + end, first, end), fresh(first, end)) << first;
  }
  EXPECT_EQ(selected(99, 0, 7), before);
  EXPECT_GT(MetricValuesOf(sessions_).at("digest_bytes_resident"), 0u);
  EXPECT_TRUE(sessions_.Close(kTenant, opened.id));
}

/// Sessions that hold digests from their start.
class HeldDigestsTest : public SessionTest {
 protected:
  /// Opens a session of one sequence over `context`, with layers 0 and 2.
  SessionManager::Opened OpenHolding(SessionManager& sessions, const ContextRef& context,
                                     std::vector<uint32_t> layers = {}) {
    auto opened = sessions.Open(
        kTenant, {{{{{context}}}}, spec_, 4, {0, 2}, HeldDigests{DigestKind::kMean, layers}});
    EXPECT_TRUE(opened.ok()) << opened.status();
    return *opened;
  }
  WantedLayers MeanQuery(uint32_t layer, uint64_t applied, uint32_t end_page) {
    WantedLayers want = Query(layer, 1, {{.first_page = 0, .end_page = end_page}}, 2);
    want.lanes.applied = {applied};
    want.query->shape.digest = DigestKind::kMean;
    return want;
  }
  void RunTasks() {
    while (executor_.RunOne()) {
    }
  }
  uint64_t Metric(const std::string& name) { return MetricValuesOf(sessions_).at(name); }
};

TEST_F(HeldDigestsTest, TheyAreReadAtOpenAndNoQueryReadsThemAgain) {
  const SegmentKey tip = SealedWith(11, 1)->chain_tip();  // Three segments, 12 pages.
  const auto opened = OpenHolding(sessions_, tip);
  RunTasks();
  EXPECT_EQ(store_.digest_reads(), 2u * 3);
  EXPECT_EQ(Metric("digest_bytes_resident"), 2 * 12 * PageDigestBytes(spec_, DigestKind::kMean));
  EXPECT_EQ(Metric("digest_layers_held_at_open"), 2u);
  auto session = Find(opened);
  for (const uint32_t layer : {0u, 2u}) Answer(*session, {1, 1, {MeanQuery(layer, 0, 12)}});
  EXPECT_EQ(store_.digest_reads(), 2u * 3);
  EXPECT_TRUE(sessions_.Close(kTenant, opened.id));
  EXPECT_GT(Metric("digest_bytes_resident"), 0u) << "a call may still be using the session";
  session.reset();
  EXPECT_EQ(Metric("digest_bytes_resident"), 0u);
}

TEST_F(HeldDigestsTest, ScoresOfContentAreMadeFromThem) {
  const SegmentKey tip = SealedWith(11, 1)->chain_tip();  // Three segments, 12 pages.
  const auto opened = sessions_.Open(
      kTenant, {{{{{tip}}}}, spec_, 4, {0, 2}, HeldDigests{DigestKind::kContent, {}}});
  ASSERT_TRUE(opened.ok()) << opened.status();
  const auto session = Find(*opened);
  const auto reads_of = [&](std::vector<uint32_t> layers) {
    const uint64_t before = store_.digest_reads();
    ContentQuery query{.layers = std::move(layers), .ranges = {{.end_page = 12}}};
    query.queries.resize(query.layers.size() * spec_.num_kv_heads * spec_.key_dim());
    const auto scores = session->ScorePages(query);
    EXPECT_TRUE(scores.ok()) << scores.status();
    return store_.digest_reads() - before;
  };
  EXPECT_EQ(reads_of({0}), 3u) << "nothing is held yet";
  RunTasks();
  const uint64_t bytes = Metric("digest_bytes_resident");
  EXPECT_EQ(bytes, 2 * 12 * PageDigestBytes(spec_, DigestKind::kContent));
  EXPECT_EQ(reads_of({0, 2}), 0u);
  EXPECT_EQ(reads_of({1}), 3u) << "the session does not hold this layer";
  EXPECT_EQ(Metric("digest_bytes_resident"), bytes);
}

TEST_F(HeldDigestsTest, TheyGoWithTheirSequenceAndWithTheSession) {
  const SegmentKey tip = SealedWith(8)->chain_tip();
  const auto opened = OpenHolding(sessions_, tip, {2});
  const auto added = sessions_.AddSequence(kTenant, opened.id, {{{SealedWith(8)->chain_tip()}}});
  ASSERT_TRUE(added.ok()) << added.status();
  RunTasks();
  const uint64_t bytes = Metric("digest_bytes_resident");
  EXPECT_EQ(bytes, 8 * PageDigestBytes(spec_, DigestKind::kMean)) << "the same document";
  EXPECT_TRUE(Find(opened)->RemoveSequence(0, kNever).ok());
  EXPECT_EQ(Metric("digest_bytes_resident"), bytes);
  EXPECT_TRUE(Find(opened)->RemoveSequence(added->number, kNever).ok());
  EXPECT_EQ(Metric("digest_bytes_resident"), 0u);
  OpenHolding(sessions_, tip);
  RunTasks();
  EXPECT_EQ(Metric("digest_bytes_resident"), 2 * bytes);
  clock_.Advance(std::chrono::minutes(11));
  sessions_.RemoveExpired();
  EXPECT_EQ(Metric("digest_bytes_resident"), 0u);
}

TEST_F(HeldDigestsTest, AQueryThatComesFirstReadsWhatItNeedsAndNobodyReadsItAgain) {
  const auto opened = OpenHolding(sessions_, SealedWith(8)->chain_tip());
  Answer(*Find(opened), {1, 1, {MeanQuery(2, 0, 8)}});
  EXPECT_EQ(store_.digest_reads(), 2u);
  RunTasks();
  EXPECT_EQ(store_.digest_reads(), 2u * 2);
}

TEST_F(HeldDigestsTest, ASequenceThatHasGoneIsNotReadFor) {
  const auto opened = OpenHolding(sessions_, SealedWith(8)->chain_tip());
  EXPECT_TRUE(sessions_.Close(kTenant, opened.id));
  RunTasks();
  EXPECT_EQ(store_.digest_reads(), 0u);
  EXPECT_EQ(Metric("digest_bytes_resident"), 0u);
}

TEST_F(HeldDigestsTest, ReadsThatFailAreToldToTheQueryThatNeedsThem) {
  const auto opened = OpenHolding(sessions_, SealedWith(8)->chain_tip());
  store_.FailReads(DataLoss("a digest is damaged"));
  RunTasks();
  EXPECT_EQ(Metric("digest_open_holds_stopped"), 1u);
  EXPECT_EQ(CodeOf(*Find(opened), {1, 1, {MeanQuery(0, 0, 8)}}), StatusCode::kDataLoss);
  store_.FailReads(OkStatus());
  Answer(*Find(opened), {1, 2, {MeanQuery(0, 0, 8)}});
}

TEST_F(HeldDigestsTest, WhatFindsNoRoomIsReadForEachQueryUntilThereIsRoom) {
  const uint64_t layer_bytes = 8 * PageDigestBytes(spec_, DigestKind::kMean);
  SessionManager sessions({.digests = {2 * layer_bytes, 2 * layer_bytes},
                           .store = &store_,
                           .resolver = &resolver_,
                           .ops = &kernels::CpuReference(),
                           .clock = &clock_,
                           .executor = &executor_});
  const auto values = [&] { return MetricValuesOf(sessions); };
  const auto first = OpenHolding(sessions, SealedWith(8)->chain_tip());
  RunTasks();
  EXPECT_EQ(values().at("digest_bytes_resident"), 2 * layer_bytes);
  const auto other = OpenWith(8);
  const auto second = OpenHolding(sessions, other.id);
  ASSERT_TRUE(Append(*other.context, 8, 4, /*seed=*/2).ok());  // Not only the first one's segments.
  RunTasks();
  const auto third = OpenHolding(sessions, other.id);
  RunTasks();
  EXPECT_EQ(values().at("digest_open_holds_stopped"), 1u);
  const auto session = *sessions.Find(kTenant, third.id);
  PageLists selected;
  uint64_t exchange = 0;
  const auto query_reads = [&] {
    const uint64_t before = store_.digest_reads();
    const auto want = MeanQuery(0, exchange, 12);
    const CollectingSink sink = Answer(*session, {1, ++exchange, {want}});
    if (exchange == 1) selected = sink.lanes()[0].selected;
    EXPECT_EQ(sink.lanes()[0].selected, selected);
    return store_.digest_reads() - before;
  };
  EXPECT_EQ(query_reads(), 3u);
  const uint64_t refused = values().at("digest_holds_refused");
  EXPECT_EQ(query_reads(), 3u);
  EXPECT_EQ(values().at("digest_holds_refused"), refused) << "nothing was freed: not tried again";
  EXPECT_TRUE(sessions.Close(kTenant, first.id));
  EXPECT_TRUE(sessions.Close(kTenant, second.id));
  EXPECT_EQ(query_reads(), 3u) << "read once more, to be held";
  EXPECT_EQ(query_reads(), 0u);
}

TEST_F(HeldDigestsTest, OnlyManagedLayersAndKindsThatThereAreCanBeHeld) {
  const SegmentKey tip = SealedWith(4)->chain_tip();
  const auto code = [&](const HeldDigests& held) {
    return sessions_.Open(kTenant, {{{{{tip}}}}, spec_, 4, {0, 2}, held}).status().code();
  };
  EXPECT_EQ(code({DigestKind::kMean, {1}}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({DigestKind::kMean, {3}}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({DigestKind::kMean, {2, 2}}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({static_cast<DigestKind>(0), {}}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({DigestKind::kDisc, {2, 0}}), StatusCode::kOk);
}

TEST_F(SessionTest, ASequenceReadsSeveralContextsAtTheirOffsets) {
  const ContextViewPtr sealed = SealedWith(6);
  const auto open = OpenWith(3, sealed);  // Pages 0..8, of which 4..8 are in memory.
  const auto opened =
      OpenSession({{{{sealed->chain_tip()}, {open.id, 1000}, {sealed->chain_tip(), -7}}}}, 8);
  ASSERT_EQ(opened.sequences[0].size(), 3u);
  const auto session = Find(opened);
  const PageLists pages = {{PageName(0, 5), PageName(1, 0), PageName(1, 8), PageName(2, 5)},
                           {PageName(2, 1)}};
  const CollectingSink sink = Answer(*session, {1, 1, {Want(1, pages)}});
  const std::vector<Slice> units = sink.units();
  ASSERT_EQ(units.size(), 5u);
  EXPECT_EQ(BytesOf(units[0]), WholeUnit(5, 1, 0));
  EXPECT_EQ(BytesOf(units[1]), WholeUnit(0, 1, 0));
  EXPECT_EQ(BytesOf(units[3]), WholeUnit(5, 1, 0));
  EXPECT_EQ(BytesOf(units[4]), WholeUnit(1, 1, 1));
  EXPECT_EQ(BytesOf(units[2]), WholeUnit(8, 1, 0));
  // The same context twice: only the rotation tells which of the two is nearer.
  const WantedLayers query = Query(0, 1,
                                   {{.member = 0, .first_page = 0, .end_page = 6},
                                    {.member = 2, .first_page = 0, .end_page = 6}},
                                   5);
  const CollectingSink selected = Answer(*session, {1, 2, {query}});
  EXPECT_EQ(selected.lanes()[0].selected.Head(0).size(), 5u);
  EXPECT_EQ(CodeOf(*session, {1, 3, {Want(2, {{PageName(0, 6)}, {}})}}),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(*session, {1, 3, {Want(2, {{PageName(3, 0)}, {}})}}),
            StatusCode::kInvalidArgument);
  EXPECT_TRUE(session->Digests(0, 2, std::vector<uint32_t>{0}, 0, 6).ok());
  EXPECT_EQ(session->Digests(0, 3, std::vector<uint32_t>{0}, 0, 1).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(SessionTest, SequencesComeAndGo) {
  const SegmentKey tip = SealedWith(8)->chain_tip();
  const auto opened = OpenSession(tip, 4, 3);
  const auto session = Find(opened);
  Answer(*session, {1, 9, {Want(0, {{1}, {}}, 0, 1)}});
  EXPECT_TRUE(session->RemoveSequence(1, kNever).ok());
  EXPECT_EQ(session->RemoveSequence(1, kNever).code(), StatusCode::kNotFound);
  EXPECT_EQ(session->RemoveSequence(~0u, kNever).code(), StatusCode::kNotFound);
  EXPECT_EQ(CodeOf(*session, {1, 10, {Want(0, {{1}, {}}, 9, 1)}}), StatusCode::kInvalidArgument);
  const auto added = sessions_.AddSequence(kTenant, opened.id, {{{tip}}});
  ASSERT_TRUE(added.ok()) << added.status();
  EXPECT_EQ(added->number, 1u);
  EXPECT_EQ(added->opened[0].view->num_pages(), 8u);
  EXPECT_EQ(Answer(*session, {1, 1, {Want(0, {{1}, {}}, 0, 1)}}).units().size(), 1u)
      << "a new sequence has no past";
  EXPECT_EQ(sessions_.AddSequence(kTenant, opened.id, {{{tip}}})->number, 3u);
  for (size_t i = session->SlotsOfSequences().size(); i < 256; ++i) {
    ASSERT_TRUE(sessions_.AddSequence(kTenant, opened.id, {{{tip}}}).ok());
  }
  EXPECT_EQ(sessions_.AddSequence(kTenant, opened.id, {{{tip}}}).status().code(),
            StatusCode::kResourceExhausted);
  EXPECT_EQ(sessions_.AddSequence("team-b", opened.id, {{{tip}}}).status().code(),
            StatusCode::kNotFound);
}

/// Sequences with fewer slots than their session.
class SequenceSlotsTest : public SessionTest {
 protected:
  /// Slots per head are 4 in the session, 2 in sequence 0, and 4 in sequence 1.
  SequenceSlotsTest() {
    const SegmentKey tip = SealedWith(8)->chain_tip();
    opened_ = OpenSession({{{{tip}}, 2}, {{{tip}}}}, 4);
    session_ = Find(opened_);
  }
  Status Refusal(const WantedLayers& want) { return Recall(*session_, {1, 1, {want}}); }
  uint64_t MapBytes(uint32_t slots) const {
    return spec_.num_layers * ServerLaneMap::Bytes(spec_.num_kv_heads, slots);
  }

  SessionManager::Opened opened_;
  std::shared_ptr<Session> session_;
};

TEST_F(SequenceSlotsTest, RecallsPlaceNothingInTheOthers) {
  const CollectingSink first = Answer(*session_, {1, 1, {Want(0, {{0, 1}, {2}})}});
  EXPECT_THAT(first.lanes()[0].placed.slots, ElementsAre(0, 1, 0));
  const CollectingSink second = Answer(*session_, {1, 2, {Want(0, {{1, 5}, {6, 7}}, 1)}});
  EXPECT_THAT(second.lanes()[0].placed.slots, ElementsAre(0, 1, 0));
  EXPECT_THAT(second.lanes()[0].placed.replaced, ElementsAre(0, -1, 2));
  const CollectingSink other = Answer(*session_, {1, 3, {Want(0, {{0, 1, 2, 3}, {}}, 0, 1)}});
  EXPECT_THAT(other.lanes()[0].placed.slots, ElementsAre(0, 1, 2, 3));
}

TEST_F(SequenceSlotsTest, PlacesAreThoseOfASessionWhoseSequencesHaveAllSlots) {
  const uint64_t unit = quire::UnitBytes(spec_);
  const RecallArgs args{1, 1, {Want(1, {{5}, {6, 7}}), Want(1, {{5}, {}}, 0, 1)}, true};
  const uint64_t lane = 1 * 2 * 4, other = (1 * 3 + 1) * 2 * 4;
  EXPECT_THAT(Answer(*session_, args).parts()[0].places,
              ElementsAre(lane * unit, (lane + 4) * unit, (lane + 5) * unit, other * unit));
}

TEST_F(SequenceSlotsTest, MorePagesThanASequenceHasSlotsAreRefusedWithBothNumbers) {
  const Status pages = Refusal(Want(0, {{0, 1, 2}, {}}));
  EXPECT_EQ(pages.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Message(pages)),
              HasSubstr("3 pages for a head: the sequence has 2 slots per head"));
  const Status query = Refusal(Query(0, 1, {{.first_page = 0, .end_page = 8}}, 3));
  EXPECT_EQ(query.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Message(query)),
              HasSubstr("num_pages is 3: the sequence has 2 slots per head"));
  EXPECT_EQ(Refusal(Query(0, 1, {{.first_page = 0, .end_page = 8}}, 2)), OkStatus());
}

TEST_F(SequenceSlotsTest, ResyncTakesMapsOfTheSequencesShape) {
  const LaneMap map{0, 1, 0, {-1, 3, 4, -1}, {0, 1, 1, 0}};
  LaneMap whole = map;
  whole.pages.resize(8, -1);
  whole.generations.resize(8);
  const Status refused = session_->Resync(2, std::span(&whole, 1), kNever);
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Message(refused)), HasSubstr("8 slots: the lane has 2 heads of 2"));
  whole.sequence = 1;
  const LaneMap maps[] = {map, whole};
  ASSERT_EQ(session_->Resync(2, maps, kNever), OkStatus());
  const CollectingSink sink = Answer(*session_, {2, 1, {Want(1, {{3, 6}, {4}})}});
  EXPECT_THAT(sink.lanes()[0].placed.slots, ElementsAre(0));
  EXPECT_THAT(sink.lanes()[0].placed.pages, ElementsAre(6));
}

TEST_F(SequenceSlotsTest, ThereAreAsManyAsTheSessionHasAtMost) {
  EXPECT_THAT(session_->SlotsOfSequences(), ElementsAre(2, 4));
  const SegmentKey tip = SealedWith(8)->chain_tip();
  for (const uint32_t slots : {5u, ~0u}) {
    const Status refusals[] = {
        sessions_.AddSequence(kTenant, opened_.id, {{{tip}}, slots}).status(),
        sessions_.Open(kTenant, {{{{{tip}}, slots}}, spec_, 4, {}}).status()};
    for (const Status& refused : refusals) {
      EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(Message(refused)),
                  HasSubstr("slots_per_head of a sequence is " + std::to_string(slots) +
                            ": the session has 4"));
    }
  }
  EXPECT_EQ(sessions_.AddSequence(kTenant, opened_.id, {{{tip}}, 1})->number, 2u);
  EXPECT_EQ(sessions_.AddSequence(kTenant, opened_.id, {{{tip}}, 4})->number, 3u);
  EXPECT_EQ(session_->RemoveSequence(0, kNever), OkStatus());
  EXPECT_THAT(session_->SlotsOfSequences(), ElementsAre(0, 4, 1, 4));
}

TEST_F(SequenceSlotsTest, MapsTakeWhatTheirSequencesHaveNotWhatTheSessionMayHave) {
  SessionManager sessions({.max_map_bytes = MapBytes(6),
                           .store = &store_,
                           .resolver = &resolver_,
                           .ops = &kernels::CpuReference(),
                           .clock = &clock_,
                           .executor = &executor_});
  const SegmentKey tip = SealedWith(8)->chain_tip();
  const auto opened = sessions.Open(kTenant, {{{{{tip}}, 2}}, spec_, 65536, {}});
  ASSERT_TRUE(opened.ok()) << opened.status();
  const auto add = [&](uint32_t slots) {
    return sessions.AddSequence(kTenant, opened->id, {{{tip}}, slots}).status();
  };
  EXPECT_EQ(add(5).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(add(0).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(add(4), OkStatus());
  const Status full = add(1);
  EXPECT_EQ(full.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(Message(full)), HasSubstr(std::to_string(MapBytes(7))));
  EXPECT_EQ((*sessions.Find(kTenant, opened->id))->RemoveSequence(0, kNever), OkStatus());
  EXPECT_EQ(add(2), OkStatus());
  EXPECT_EQ(sessions.Open(kTenant, {{{{{tip}}, 3}, {{{tip}}, 4}}, spec_, 8, {}}).status().code(),
            StatusCode::kResourceExhausted);
}

TEST_F(SessionTest, PagesAppendedAfterTheOpeningCanBeRecalled) {
  const auto open = OpenWith(1);
  const auto session = SessionOver(open.id, 4);
  EXPECT_EQ(CodeOf(*session, {1, 1, {Want(0, {{1}, {}})}}), StatusCode::kInvalidArgument);
  ASSERT_TRUE(Append(*open.context, 1, 4).ok());
  const CollectingSink sink = Answer(*session, {1, 1, {Want(0, {{1}, {4}})}});
  EXPECT_EQ(BytesOf(sink.units()[1]), WholeUnit(4, 0, 1));
}

// Promise 1: a sequence's contents do not change. Once segments were replaced, the sequence ends
// before it gets bytes that do not match its others.
TEST_F(SessionTest, ASequenceWhoseSegmentsWereReplacedEndsAndANewOneReadsTheNewBytes) {
  const ContextViewPtr sealed = SealedWith(8);  // Two segments.
  const auto session = SessionOver(sealed->chain_tip(), 4);
  const auto beginning = SessionOver(SealedWith(4)->chain_tip(), 4);
  ASSERT_EQ(CodeOf(*session, {1, 1, {Want(0, {{0, 4}, {}})}}), StatusCode::kOk);
  store_.Replace(sealed->keys->back(), std::byte{0x3c});
  for (const PageLists& pages : {PageLists{{0, 4}, {}}, PageLists{{5}, {}}}) {
    EXPECT_EQ(CodeOf(*session, {1, 2, {Want(0, pages, 1)}}), StatusCode::kNotFound);
  }
  EXPECT_EQ(session->Digests(0, 0, std::vector{0u}, 0, 4).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(CodeOf(*beginning, {1, 1, {Want(0, {{0, 3}, {}})}}), StatusCode::kOk);
  EXPECT_EQ(MetricValuesOf(sessions_).at("session_recalls_of_replaced"), 2u);
  const auto again = SessionOver(sealed->chain_tip(), 4);
  const CollectingSink sink = Answer(*again, {1, 1, {Want(0, {{4}, {}})}});
  EXPECT_EQ(BytesOf(sink.units()[0]),
            std::vector<std::byte>(quire::UnitBytes(spec_), std::byte{0x3c}));
}

// An open context that continued them ends, too. Its own append is no such change.
TEST_F(SessionTest, AContextOverSegmentsThatWereReplacedIsReadNoMore) {
  const ContextViewPtr sealed = SealedWith(4);
  const auto open = OpenWith(5, sealed);  // Stores its own segment.
  EXPECT_EQ(CodeOf(*SessionOver(open.id, 4), {1, 1, {Want(0, {{0, 8}, {}})}}), StatusCode::kOk);
  store_.Replace(sealed->keys->back(), std::byte{0x3c});
  ASSERT_TRUE(Append(*open.context, 9, 4).ok());
  EXPECT_EQ(CodeOf(*SessionOver(open.id, 4), {1, 1, {Want(0, {{0}, {}})}}), StatusCode::kNotFound);
  EXPECT_EQ(CodeOf(*SessionOver(OpenWith(1, sealed).id, 4), {1, 1, {Want(0, {{0, 4}, {}})}}),
            StatusCode::kOk);
}

TEST_F(SessionTest, DigestsOfBytesThatWereReplacedAreSharedWithNobodyWhoComesLater) {
  const ContextViewPtr sealed = SealedWith(8);
  const auto select = [&] {
    const WantedLayers want = Query(1, 1, {{.first_page = 0, .end_page = 8}}, 2);
    const auto session = SessionOver(sealed->chain_tip(), 4);
    EXPECT_EQ(CodeOf(*session, {1, 1, {want}}), StatusCode::kOk);
    return session;
  };
  const auto first = select(), second = select();
  EXPECT_EQ(MetricValuesOf(sessions_).at("digest_extents_loaded"), 2u);
  EXPECT_EQ(MetricValuesOf(sessions_).at("digest_extents_shared"), 2u);
  store_.Replace(sealed->keys->back(), std::byte{0x3c});
  const auto later = select();
  EXPECT_EQ(MetricValuesOf(sessions_).at("digest_extents_loaded"), 3u);
  EXPECT_EQ(MetricValuesOf(sessions_).at("digest_extents_shared"), 3u) << "of the first segment";
}

// A context releases its segments once a document names them; its readers do not.
TEST_F(SessionTest, ASessionHoldsTheSegmentsOfAContextThatWasSealedNamedAndDeleted) {
  const auto open = OpenWith(4);
  const uint64_t before = OpenSession(open.id, 4).id;
  const SegmentKey key = (*Seal(*open.context, 4, 0))->chain_tip();
  contexts_.Retire(kTenant, open.id);
  contexts_.Named(kTenant, open.id, key);
  const uint64_t later = OpenSession(open.id, 4).id;
  (void)store_.DeleteSegment(kTenant, key);
  for (const uint64_t id : {before, later}) {
    EXPECT_EQ(store_.num_segments(), 1u);
    EXPECT_EQ(CodeOf(**sessions_.Find(kTenant, id), {1, 1, {Want(0, {{0}, {3}})}}),
              StatusCode::kOk);
    EXPECT_TRUE(sessions_.Close(kTenant, id));
  }
  EXPECT_EQ(store_.num_segments(), 0u) << "the delete is finished";
}

TEST_F(SessionTest, MalformedRecallsAreRefusedAndChangeNothing) {
  const auto session = SessionOver(SealedWith(4)->chain_tip(), 2);
  const CandidatePages all{.first_page = 0, .end_page = 4};
  WantedLayers short_query = Query(0, 1, {all}, 2), offset = Query(0, 1, {all}, 2);
  short_query.query->queries.pop_back();
  for (const std::vector<WantedLayers>& wants : std::vector<std::vector<WantedLayers>>{
           {Want(3, {{}, {}})},
           {Layers(2, {0, 0}, {{}, {}})},
           {Layers(~0u, {0, 0}, {{}, {}})},
           {Want(0, {{}, {}}), Want(0, {{}, {}})},
           {Want(1, {{}, {}}), Layers(0, {0, 0}, {{}, {}})},
           {Want(0, {{}})},
           {Want(0, {{}, {}, {}})},
           {Want(0, {{0, 1, 2}, {}})},
           {Want(0, {{4}, {}})},
           {Want(0, {{0xffffffff}, {}})},
           {Want(0, {{}, {}}, 0, 1)},
           {Want(0, {{}, {}}, 0, 256)},
           {Query(0, 1, {all}, 3)},
           {short_query},
           {Query(0, 1, {{.first_page = 3, .end_page = 2}}, 1)},
           {Query(0, 1, {{.first_page = 0, .end_page = 5}}, 1)},
           {Query(0, 1, {{.member = 1, .first_page = 0, .end_page = 1}}, 1)}}) {
    EXPECT_EQ(CodeOf(*session, {1, 1, wants}), StatusCode::kInvalidArgument)
        << Recall(*session, {1, 1, wants});
  }
  EXPECT_EQ(CodeOf(*session, {1, 1, {Want(0, {{0, 1}, {3}})}}), StatusCode::kOk);
}

TEST_F(SessionTest, WhatDoesNotFitInAPartIsRefusedNamingTheLimit) {
  const ContextViewPtr sealed = SealedWith(50);
  const auto session = SessionOver(sealed->chain_tip(), 50);
  const RecallArgs args{1, 1, {Layers(0, {0, 0, 0}, Everything(50))}};
  const Status whole = Recall(*session, args);  // 300 units of 256 bytes exceed 65536.
  EXPECT_EQ(whole.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(Message(whole)), HasSubstr("65536"));
  EXPECT_FALSE(RetryAfter(whole));
  EXPECT_EQ(Answer(*session, args, {.max_parts = 2}).parts().size(), 2u);
}

TEST_F(SessionTest, ResyncReplacesEveryMap) {
  const auto session = SessionOver(SealedWith(8)->chain_tip(), 2);
  Answer(*session, {1, 1, {Layers(0, {0, 0}, {{0, 1}, {2}})}});
  const LaneMap maps[] = {{0, 0, 1, {5, -1, -1, -1}, {3, 0, 0, 0}}};
  EXPECT_EQ(session->Resync(1, maps, kNever).code(), StatusCode::kFailedPrecondition);
  ASSERT_TRUE(session->Resync(2, maps, kNever).ok());
  EXPECT_EQ(session->epoch(), 2u);
  EXPECT_EQ(CodeOf(*session, {1, 2, {Want(0, {{}, {}}, 1)}}), StatusCode::kFailedPrecondition);
  const CollectingSink sink =
      Answer(*session, {2, 2, {Want(0, {{5, 6}, {}}, 1), Want(1, {{0, 1}, {2}}, 0)}});
  EXPECT_THAT(sink.lanes()[0].placed.slots, ElementsAre(1));
  EXPECT_THAT(sink.lanes()[0].placed.pages, ElementsAre(6));
  EXPECT_EQ(sink.lanes()[1].placed.size(), 3u) << "a lane that is not named is empty";
}

TEST_F(SessionTest, ResyncRefusesMapsThatCannotBe) {
  const auto session = SessionOver(SealedWith(4)->chain_tip(), 2);
  const LaneMap good{0, 1, 0, {-1, 3, 0, -1}, {0, 1, 1, 0}};
  using Maps = std::vector<LaneMap>;
  const auto with = [&](auto change) {
    Maps maps = {good};
    change(maps);
    return session->Resync(2, maps, kNever).code();
  };
  constexpr StatusCode kBad = StatusCode::kInvalidArgument;
  EXPECT_EQ(with([](Maps& m) { m[0].pages = {1, 1, -1, -1}; }), kBad);
  EXPECT_EQ(with([](Maps& m) { m[0].pages[0] = 4; }), kBad);
  EXPECT_EQ(with([](Maps& m) { m[0].pages[0] = -2; }), kBad);
  EXPECT_EQ(with([](Maps& m) { m[0].pages[0] = 1 << 24; }), kBad);
  EXPECT_EQ(with([](Maps& m) { m[0].pages.pop_back(); }), kBad);
  EXPECT_EQ(with([](Maps& m) { m[0].generations.pop_back(); }), kBad);
  EXPECT_EQ(with([](Maps& m) { m[0].layer = 9; }), kBad);
  EXPECT_EQ(with([](Maps& m) { m[0].sequence = 1; }), kBad);
  EXPECT_EQ(with([&](Maps& m) { m.push_back(good); }), kBad);
  EXPECT_EQ(session->epoch(), 1u);
  EXPECT_EQ(with([](Maps&) {}), StatusCode::kOk);
}

TEST_F(SessionTest, DigestsStayInsideTheContext) {
  const auto session = SessionOver(SealedWith(4)->chain_tip(), 2);
  const std::vector<uint32_t> layers = {0, 2};
  EXPECT_EQ(session->Digests(0, 0, layers, 1, 4)->size_bytes(), 2 * 3 * PageDigestBytes(spec_));
  EXPECT_EQ(session->Digests(0, 0, layers, 2, 2)->size_bytes(), 0u);
  EXPECT_FALSE(session->Digests(0, 0, layers, 0, 5).ok());
  EXPECT_FALSE(session->Digests(0, 0, layers, 3, 2).ok());
  EXPECT_FALSE(session->Digests(1, 0, layers, 0, 1).ok());
  EXPECT_FALSE(session->Digests(0, 0, std::vector<uint32_t>{3}, 0, 1).ok());
  EXPECT_FALSE(session->Digests(0, 0, std::vector<uint32_t>{0, 1, 2, 0}, 0, 1).ok());
}

TEST_F(SessionTest, OpeningChecksSpecShapesAndNumber) {
  const SegmentKey tip = SealedWith(4, 2)->chain_tip();
  const SessionManager::OpenArgs good{{{{{tip}}}}, spec_, 4, {}};
  const auto refusal = [&](auto change) {
    SessionManager::OpenArgs args = good;
    change(args);
    return sessions_.Open(kTenant, args).status();
  };
  using Args = SessionManager::OpenArgs;
  const Status mismatch = refusal([](Args& a) { a.spec.num_query_heads = 8; });
  EXPECT_EQ(mismatch.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Message(mismatch)), HasSubstr("num_query_heads"));
  constexpr StatusCode kBad = StatusCode::kInvalidArgument;
  EXPECT_EQ(refusal([](Args& a) { a.slots_per_head = 0; }).code(), kBad);
  EXPECT_EQ(refusal([](Args& a) { a.slots_per_head = 65537; }).code(), kBad);
  EXPECT_EQ(refusal([](Args& a) { a.managed_layers = {3}; }).code(), kBad);
  EXPECT_EQ(refusal([](Args& a) { a.managed_layers = {1, 1}; }).code(), kBad);
  EXPECT_EQ(refusal([](Args& a) { a.sequences = {}; }).code(), kBad);
  EXPECT_EQ(refusal([](Args& a) { a.sequences[0].members = {}; }).code(), kBad);
  EXPECT_EQ(refusal([&](Args& a) { a.sequences[0].members.resize(65, {tip}); }).code(), kBad);
  EXPECT_EQ(refusal([&](Args& a) { a.sequences.resize(257, a.sequences[0]); }).code(), kBad);
  EXPECT_EQ(
      refusal([](Args& a) { a.sequences[0].members[0].position_offset = int64_t{1} << 31; }).code(),
      kBad);
  EXPECT_EQ(refusal([](Args& a) { a.sequences[0].members = {{uint64_t{7}}}; }).code(),
            StatusCode::kNotFound);
  const Status large = refusal([](Args& a) {
    a.sequences.resize(256, a.sequences[0]);
    a.slots_per_head = 65536;
  });
  EXPECT_EQ(large.code(), StatusCode::kResourceExhausted) << large;
  EXPECT_EQ(OpenSession(tip, 4).sequences[0][0].tail_tokens.size(), 2u);
  for (int i = 0; i < 3; ++i) OpenSession(tip, 4);
  EXPECT_EQ(sessions_.Open(kTenant, good).status().code(), StatusCode::kResourceExhausted);
  clock_.Advance(std::chrono::minutes(11));
  EXPECT_TRUE(sessions_.Open(kTenant, good).ok());
}

TEST_F(SessionTest, ContextsTooLargeToDescribeAreRefused) {
  const SegmentKey tip = SealedWith(4, 2)->chain_tip();
  // 65536 bytes of reply: room for about a hundred descriptions.
  const auto opened = sessions_.Open(kTenant, {{200, {{{tip}}}}, spec_, 4, {}});
  EXPECT_EQ(opened.status().code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(sessions_.Open(kTenant, {{50, {{{tip}}}}, spec_, 4, {}}).ok());
}

TEST_F(SessionTest, OffsetsNeedKeysThatCanBeMoved) {
  KvSpec spec = spec_;
  spec.rope.state = RopeState::kPre;
  const auto open = contexts_.Open(kTenant, spec, nullptr);
  ASSERT_TRUE(open.ok()) << open.status();
  const auto moved = sessions_.Open(kTenant, {{{{{open->id, 5}}}}, spec, 4, {}});
  EXPECT_EQ(moved.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Message(moved.status())), HasSubstr("position_offset"));
  EXPECT_TRUE(sessions_.Open(kTenant, {{{{{open->id}}}}, spec, 4, {}}).ok());
}

TEST_F(SessionTest, ScoresOfPagesAreSumsOverHeadsOfQueriesAndContent) {
  const ContextViewPtr sealed = SealedWith(6, 3);   // The last page is short.
  const auto open = OpenWith(5, SealedWith(9, 1));  // The last pages are in memory.
  const auto session = Find(OpenSession({{{{sealed->chain_tip()}, {open.id, 40}}}}, 4));
  ContentQuery query{.layers = {2, 0},
                     .ranges = {{.member = 0, .first_page = 1, .end_page = 7},
                                {.member = 1, .first_page = 0, .end_page = 14}}};
  SeededRandom random(3);
  query.queries.resize(size_t{2} * 2 * spec_.num_kv_heads * spec_.key_dim());
  for (float& value : query.queries) value = random.Normal();
  const auto scores = session->ScorePages(query);
  ASSERT_TRUE(scores.ok()) << scores.status();
  ASSERT_EQ(scores->size(), 2u * (6 + 14));
  const size_t row = size_t{spec_.num_kv_heads} * spec_.key_dim();
  size_t at = 0, q = 0;
  for (const CandidatePages& range : query.ranges) {
    for (const uint32_t layer : query.layers) {
      const std::vector<uint32_t> layers = {layer};
      const auto digests = session->Digests(0, range.member, layers, range.first_page,
                                            range.end_page, DigestKind::kContent);
      ASSERT_TRUE(digests.ok()) << digests.status();
      const Slice means = digests->Flatten();
      for (uint32_t page = 0; page < range.num_pages(); ++page) {
        double sum = 0;
        for (size_t c = 0; c < row; ++c) {
          const auto element = static_cast<int64_t>(page * row + c);
          sum +=
              double{query.queries[q + c]} * LoadElement(means.bytes.data(), element, spec_.dtype);
        }
        EXPECT_NEAR((*scores)[at++], sum, 1e-5);
      }
      q += row;
    }
  }
}

TEST_F(SessionTest, ScoresThatCannotBeAreRefusedAndACallThatNobodyWantsEnds) {
  const auto session = SessionOver(SealedWith(6)->chain_tip(), 4);
  ContentQuery query{.layers = {0, 1, 2}, .ranges = {{.end_page = 6}}};
  query.queries.resize(size_t{3} * spec_.num_kv_heads * spec_.key_dim());
  EXPECT_TRUE(session->ScorePages(query).ok());
  const auto code = [&](auto change) {
    ContentQuery changed = query;
    change(&changed);
    return session->ScorePages(changed).status().code();
  };
  constexpr StatusCode kBad = StatusCode::kInvalidArgument;
  EXPECT_EQ(code([](ContentQuery* bad) { bad->sequence = 1; }), kBad);
  EXPECT_EQ(code([](ContentQuery* bad) { bad->layers[1] = 3; }), kBad);
  EXPECT_EQ(code([](ContentQuery* bad) { bad->layers.resize(4); }), kBad);
  EXPECT_EQ(code([](ContentQuery* bad) { bad->ranges[0].member = 1; }), kBad);
  EXPECT_EQ(code([](ContentQuery* bad) { bad->ranges[0].end_page = 7; }), kBad);
  EXPECT_EQ(code([](ContentQuery* bad) { bad->ranges[0].first_page = 7; }), kBad);
  EXPECT_EQ(code([](ContentQuery* bad) { bad->ranges.push_back(bad->ranges[0]); }), kBad);
  EXPECT_EQ(code([](ContentQuery* bad) { bad->queries.pop_back(); }), kBad);
  EXPECT_EQ(code([](ContentQuery* late) {
              late->check_wanted = [] { return DeadlineExceeded("too late"); };
            }),
            StatusCode::kDeadlineExceeded);
  store_.FailReads(DataLoss("damaged"));
  EXPECT_EQ(session->ScorePages(query).status().code(), StatusCode::kDataLoss);
}

}  // namespace
}  // namespace quire::kvserver::testing
