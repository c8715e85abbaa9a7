// SPDX-License-Identifier: Apache-2.0
//
// A part of a recall's reply is believed only when it fits the request, the worker's map and its
// checksums.
#include "client/recall/recall_codec.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "client/recall_test_kit.h"
#include "client/validate.h"
#include "common/wire/unit_list.h"

namespace quire::internal {
namespace {

using testing::LaneRows;
using testing::RandomPayload;

/// The worker holds pages 5 and 6 at head 0 of layer 0, in slots 0 and 1 of generation 4. Slot 2 is
/// empty. It wants {5, 7, 8} there, {1} at head 1, and page 2 at head 1 of layer 1.
class RecallCodecTest : public ::testing::Test {
 protected:
  RecallCodecTest() : map_(ManagedLayers({0, 1}), 2, 3) {
    map_.AddSequence(0, 3);
    map_.Place({.layer = 0, .head = 0, .slot = 0, .generation = 4, .page = 5});
    map_.Place({.layer = 0, .head = 0, .slot = 1, .generation = 4, .page = 6});
    wants_ = {{.layer = 0, .pages = {{5, 7, 8}, {1}}}, {.layer = 1, .pages = {{}, {2}}}};
    reply_.set_exchange(3);
    reply_.set_epoch(2);
    AddLane({0, 0, {{0, 1, 5, 7, 6}, {0, 2, 1, 8}, {1, 0, 1, 1}}});
    AddLane({0, 1, {{1, 0, 1, 2}}});
  }

  void AddLane(const LaneRows& rows) { testing::AddLane(spec_, rows, &reply_, &payload_); }
  /// Changes the records of lane 0.
  void Edit(const std::function<void(wire::LaneUnits*)>& edit) {
    v1::LanePlacement& lane = *reply_.mutable_lanes(0);
    wire::LaneUnits units;
    ASSERT_TRUE(
        wire::DecodeLaneUnits(lane.units(), lane.units().size() / wire::kLaneUnitBytes, &units)
            .ok());
    edit(&units);
    wire::EncodeLaneUnits(units, lane.mutable_units());
  }
  StatusOr<RecallPart> Read(const CodecSet& codecs = {}) const {
    const std::vector<WantedLane> lanes = LanesOf(wants_);
    return PartFromProto(reply_, {.control = {}, .payload = payload_},
                         {.epoch = 2,
                          .exchange = 3,
                          .lanes = lanes,
                          .sizes = UnitSizes(spec_, UnitPart::kWhole, codecs),
                          .map = &map_});
  }

  const KvSpec spec_ = testing::TinySpec();
  WorkerSlots map_;
  std::vector<LayerWant> wants_;
  v1::RecallReply reply_;
  Payload payload_;
};

TEST_F(RecallCodecTest, APartThatFitsGivesItsPlacementsInPayloadOrder) {
  const auto part = Read();
  ASSERT_TRUE(part.ok()) << part.status();
  ASSERT_EQ(part->lanes.size(), 2u);
  ASSERT_EQ(part->placements.size(), 4u);
  EXPECT_EQ(part->lanes[0].exchange, 3u);
  EXPECT_EQ(part->PlacementsOf(part->lanes[0]).size(), 3u);
  EXPECT_EQ(part->placements[0].page, 7u);
  EXPECT_EQ(part->placements[0].replaced, 6);
  EXPECT_EQ(part->placements[2].head, 1u);
  ASSERT_EQ(part->PlacementsOf(part->lanes[1]).size(), 1u);
  EXPECT_EQ(part->PlacementsOf(part->lanes[1])[0].page, 2u);
  EXPECT_EQ(part->lanes[0].selected, PageLists());
  EXPECT_EQ(testing::Bytes(part->payload), testing::Bytes(payload_));
}

TEST_F(RecallCodecTest, UnitsThatTheCallerHoldsHaveNoBytes) {
  wants_[0].held = {{8}, {}};
  payload_ = {};
  for (const uint32_t page : {7, 1, 2}) payload_.Append(testing::UnitOfPage(spec_, page));
  Edit([](auto* units) { units->crc32c[1] = 0; });
  const auto part = Read();
  ASSERT_TRUE(part.ok()) << part.status();
  EXPECT_EQ(part->placements.size(), 4u);
  EXPECT_EQ(part->held, std::vector<size_t>{1});
  EXPECT_EQ(part->payload.size_bytes(), 3 * UnitBytes(spec_));
  // The others are still compared with their checksums.
  Edit([](auto* units) { units->crc32c[2] ^= 1; });
  EXPECT_TRUE(IsDataLoss(Read().status()));
  Edit([](auto* units) { units->crc32c[2] ^= 1; });
  payload_.Append(testing::UnitOfPage(spec_, 8));
  EXPECT_TRUE(IsDataLoss(Read().status()));
}

/// Two units of head 0 are encoded.
class EncodedUnitsTest : public RecallCodecTest {
 protected:
  EncodedUnitsTest() {
    payload_ = {};
    const uint64_t encoded = UnitBytes(spec_, UnitCodec::kInt8);
    std::vector<uint32_t> checksums;
    for (const uint64_t bytes : {encoded, encoded, UnitBytes(spec_), UnitBytes(spec_)}) {
      const std::vector<std::byte> unit = testing::RandomBytes(bytes, checksums.size());
      checksums.push_back(Crc32c(unit));
      payload_.Append(unit);
    }
    Edit([&](auto* units) { std::copy_n(checksums.begin(), 3, units->crc32c.begin()); });
    wire::LaneUnits last;
    EXPECT_TRUE(wire::DecodeLaneUnits(reply_.lanes(1).units(), 1, &last).ok());
    last.crc32c = {checksums[3]};
    reply_.mutable_lanes(1)->clear_units();
    wire::EncodeLaneUnits(last, reply_.mutable_lanes(1)->mutable_units());
    SetRuns({{v1::UNIT_CODEC_INT8, 2}, {v1::UNIT_CODEC_RAW, 2}});
  }
  void SetRuns(const std::vector<std::pair<int, uint32_t>>& runs) {
    reply_.clear_codecs();
    for (const auto& [codec, units] : runs) {
      v1::CodecRun& run = *reply_.add_codecs();
      run.set_codec(static_cast<v1::UnitCodec>(codec));
      run.set_units(units);
    }
  }
};

TEST_F(EncodedUnitsTest, UnitsHaveTheSizesOfTheirCodecs) {
  const auto part = Read({UnitCodec::kInt8});
  ASSERT_TRUE(part.ok()) << part.status();
  EXPECT_EQ(part->codecs,
            (std::vector{UnitCodec::kInt8, UnitCodec::kInt8, UnitCodec::kRaw, UnitCodec::kRaw}));
  EXPECT_EQ(testing::Bytes(part->payload), testing::Bytes(payload_));
  Edit([](auto* units) { units->crc32c[1] ^= 1; });
  EXPECT_TRUE(IsDataLoss(Read({UnitCodec::kInt8}).status()));
}

TEST_F(EncodedUnitsTest, CodecsThatWereNotAskedForAreRefused) {
  EXPECT_TRUE(IsDataLoss(Read().status()));
  EXPECT_TRUE(IsDataLoss(Read({UnitCodec::kInt4}).status()));
  for (const int codec : {0, 5, -253, 259}) {
    SetRuns({{codec, 2}, {v1::UNIT_CODEC_RAW, 2}});
    EXPECT_TRUE(IsDataLoss(Read(CodecSet::All()).status())) << codec;
  }
}

TEST_F(EncodedUnitsTest, CodecsOfMoreOrFewerUnitsAreRefused) {
  using Runs = std::vector<std::pair<int, uint32_t>>;
  for (const Runs& runs : {Runs{{3, 2}, {1, 1}}, Runs{{3, 2}, {1, 3}}, Runs{{3, 0}, {1, 4}},
                           Runs{{3, 3}, {1, 1}}, Runs{{3, UINT32_MAX}, {1, 5}}, Runs{}}) {
    SetRuns(runs);
    EXPECT_TRUE(IsDataLoss(Read({UnitCodec::kInt8}).status()));
  }
}

TEST_F(RecallCodecTest, APartMayBringFewerLanesThanAreMissing) {
  reply_.mutable_lanes()->RemoveLast();
  Payload first;
  for (const uint32_t page : {7, 8, 1}) first.Append(testing::UnitOfPage(spec_, page));
  payload_ = first;
  const auto part = Read();
  ASSERT_TRUE(part.ok()) << part.status();
  EXPECT_EQ(part->lanes.size(), 1u);
}

TEST_F(RecallCodecTest, EverythingResidentNeedsNoBytes) {
  wants_ = {{.layer = 0, .pages = {{5, 6}, {}}}};
  reply_.clear_lanes();
  payload_ = {};
  AddLane({0, 0, {}});
  const auto part = Read();
  ASSERT_TRUE(part.ok()) << part.status();
  EXPECT_TRUE(part->placements.empty());
}

TEST_F(RecallCodecTest, PartsThatLieInAnyWayAreRefused) {
  using Lie = std::pair<const char*, std::function<void()>>;
  const std::vector<Lie> lies = {
      {"exchange", [this] { reply_.set_exchange(2); }},
      {"epoch", [this] { reply_.set_epoch(1); }},
      {"no lanes", [this] { reply_.clear_lanes(); }},
      {"a lane more", [this] { *reply_.add_lanes() = reply_.lanes(0); }},
      {"another layer", [this] { reply_.mutable_lanes(0)->set_layer(1); }},
      {"another sequence", [this] { reply_.mutable_lanes(0)->set_sequence(1); }},
      {"lanes in another order", [this] { reply_.mutable_lanes()->SwapElements(0, 1); }},
      {"a head less", [this] { reply_.mutable_lanes(0)->mutable_counts()->RemoveLast(); }},
      {"more units than slots", [this] { reply_.mutable_lanes(0)->set_counts(0, 4); }},
      {"a unit at another head",
       [this] {
         reply_.mutable_lanes(0)->set_counts(0, 1);
         reply_.mutable_lanes(0)->set_counts(1, 2);
       }},
      {"a selection nobody asked for",
       [this] {
         wire::EncodeUnitList({{}, {}}, reply_.mutable_lanes(0)->mutable_selected());
       }},
      {"records that end early", [this] { reply_.mutable_lanes(0)->mutable_units()->pop_back(); }},
      {"a slot that does not exist", [this] { Edit([](auto* units) { units->slots[1] = 3; }); }},
      {"a stale generation", [this] { Edit([](auto* units) { units->generations[0] = 4; }); }},
      {"a generation skipped", [this] { Edit([](auto* units) { units->generations[0] = 6; }); }},
      {"another page replaced", [this] { Edit([](auto* units) { units->replaced[0] = 5; }); }},
      {"a page nobody asked for", [this] { Edit([](auto* units) { units->pages[1] = 9; }); }},
      {"a page placed twice", [this] { Edit([](auto* units) { units->pages[1] = 7; }); }},
      {"pages out of order",
       [this] { Edit([](auto* units) { std::swap(units->pages[0], units->pages[1]); }); }},
      {"a resident page placed again", [this] { Edit([](auto* units) { units->pages[0] = 5; }); }},
      {"a wanted page overwritten",
       [this] {
         Edit([](auto* units) {
           units->slots[0] = 0;
           units->replaced[0] = 5;
         });
       }},
      {"a wanted page missing",
       [this] {
         wants_[1].pages = {{}, {2, 3}};
       }},
      {"a wrong checksum", [this] { Edit([](auto* units) { units->crc32c[2] ^= 1; }); }},
      {"other bytes", [this] { payload_ = RandomPayload(4 * UnitBytes(spec_), 2); }},
      {"a byte less", [this] { payload_ = RandomPayload(4 * UnitBytes(spec_) - 1, 1); }},
      {"a byte more", [this] { payload_.Append(std::vector<std::byte>(1)); }},
      {"no payload", [this] { payload_ = {}; }},
  };
  const v1::RecallReply good_reply = reply_;
  const Payload good_payload = payload_;
  const std::vector<LayerWant> good_wants = wants_;
  for (const auto& [name, lie] : lies) {
    reply_ = good_reply;
    payload_ = good_payload;
    wants_ = good_wants;
    lie();
    EXPECT_TRUE(IsDataLoss(Read().status())) << name << ": " << Read().status();
  }
}

TEST_F(RecallCodecTest, BytesThatLandedWhereNothingWasToLandAreRefused) {
  const std::vector<WantedLane> lanes = LanesOf(wants_);
  const auto part =
      PartFromProto(reply_, {.control = {}, .payload = {}, .landed_bytes = payload_.size_bytes()},
                    {.epoch = 2,
                     .exchange = 3,
                     .lanes = lanes,
                     .sizes = UnitSizes(spec_, UnitPart::kWhole, {}),
                     .map = &map_});
  EXPECT_TRUE(IsDataLoss(part.status())) << part.status();
}

TEST_F(RecallCodecTest, ASelectionByTheServerMustKeepToItsCandidates) {
  wants_ = {{.layer = 0,
             .query = std::vector<float>(32),
             .candidates = {{.member = 0, .first_page = 5, .end_page = 9},
                            {.member = 2, .first_page = 0, .end_page = 2}},
             .num_pages = 3}};
  const auto select = [&](const PageLists& selected) {
    reply_.clear_lanes();
    payload_ = {};
    AddLane({0, 0, {{0, 1, 5, 7, 6}, {0, 2, 1, 8}, {1, 0, 1, PageName(2, 1)}}});
    wire::EncodeUnitList(selected, reply_.mutable_lanes(0)->mutable_selected());
    return Read();
  };
  const uint32_t other = PageName(2, 1);
  const auto part = select({{5, 7, 8}, {other}});
  ASSERT_TRUE(part.ok()) << part.status();
  EXPECT_EQ(part->lanes[0].selected, (PageLists{{5, 7, 8}, {other}}));
  EXPECT_TRUE(IsDataLoss(select({{5, 7, 9}, {other}}).status()));
  EXPECT_TRUE(IsDataLoss(select({{4, 7, 8}, {other}}).status()));
  EXPECT_TRUE(IsDataLoss(select({{7, 8, PageName(1, 0)}, {other}}).status()));
  EXPECT_TRUE(IsDataLoss(select({{5, 7, 8}, {other + 1}}).status()));
  EXPECT_TRUE(IsDataLoss(select({{5, 7, 8}, {5, 6, 7, other}}).status()));
  EXPECT_TRUE(IsDataLoss(select({{5, 6, 7}, {other}}).status()));
  reply_.mutable_lanes(0)->clear_selected();
  EXPECT_TRUE(IsDataLoss(Read().status()));
}

TEST_F(RecallCodecTest, WantsThatCannotBeRightAreNamedBeforeTheyAreSent) {
  const auto refused = [&](const std::vector<LayerWant>& wants) {
    return IsInvalidArgument(CheckWants(wants, spec_, map_));
  };
  const LayerWant query{
      .layer = 0, .query = std::vector<float>(32), .candidates = {{.end_page = 4}}, .num_pages = 2};
  EXPECT_FALSE(refused(wants_));
  EXPECT_FALSE(refused({{.layer = 0, .pages = {{1}, {}}, .held = {{1}, {2}}}}));
  EXPECT_TRUE(refused({{.layer = 0, .pages = {{1}, {}}, .held = {{1}}}}));
  EXPECT_TRUE(refused({{.layer = 0, .pages = {{1}, {}}, .held = {{2, 1}, {}}}}));
  EXPECT_FALSE(refused({query}));
  EXPECT_FALSE(refused({{.layer = 0, .num_layers = 2, .pages = {{1}, {}}}}));
  EXPECT_TRUE(refused({}));
  EXPECT_TRUE(refused({wants_[0], wants_[0]}));
  EXPECT_TRUE(refused({{.layer = 0, .num_layers = 2, .pages = {{1}, {}}}, wants_[1]}));
  EXPECT_TRUE(refused({{.layer = 0, .num_layers = 3, .pages = {{1}, {}}}}));
  EXPECT_TRUE(refused({{.layer = 0, .num_layers = 0, .pages = {{1}, {}}}}));
  EXPECT_TRUE(refused({{.layer = UINT32_MAX, .num_layers = 2, .pages = {{1}, {}}}}));
  EXPECT_TRUE(refused({{.sequence = 1, .layer = 0, .pages = {{1}, {1}}}}));
  EXPECT_TRUE(refused({{.layer = 2, .pages = {{1}, {1}}}}));
  EXPECT_TRUE(refused({{.layer = 0, .pages = {{1}}}}));
  EXPECT_TRUE(refused({{.layer = 0, .pages = {{1, 1}, {}}}}));
  EXPECT_TRUE(refused({{.layer = 0, .pages = {{2, 1}, {}}}}));
  EXPECT_TRUE(refused({{.layer = 0, .pages = {{1, 2, 3, 4}, {}}}}));
  EXPECT_TRUE(refused({{.layer = 0, .pages = {{UINT32_MAX}, {}}}}));
  EXPECT_TRUE(refused({{.layer = 0}}));
  const auto refused_query = [&](const std::function<void(LayerWant*)>& spoil) {
    LayerWant want = query;
    spoil(&want);
    return refused({want});
  };
  EXPECT_TRUE(refused_query([](LayerWant* want) { want->pages = {{1}, {}}; }));
  EXPECT_TRUE(refused_query([](LayerWant* want) { want->num_pages = 4; }));
  EXPECT_TRUE(refused_query([](LayerWant* want) { want->num_pages = 0; }));
  EXPECT_TRUE(refused_query([](LayerWant* want) { want->candidates.clear(); }));
  EXPECT_TRUE(refused_query([](LayerWant* want) { want->candidates[0].end_page = 0; }));
  EXPECT_TRUE(refused_query([](LayerWant* want) { want->candidates[0].member = 64; }));
  EXPECT_TRUE(
      refused_query([](LayerWant* want) { want->candidates.push_back(want->candidates[0]); }));
  EXPECT_TRUE(refused_query([](LayerWant* want) { want->query.pop_back(); }));
  EXPECT_TRUE(refused_query([](LayerWant* want) { want->num_layers = 2; }));
}

TEST_F(RecallCodecTest, OneWantForSeveralLayersIsSentOnceWithWhatEachLaneApplied) {
  map_.lane(0, 0).applied = 7;
  map_.lane(0, 1).applied = 9;
  wants_ = {{.layer = 0, .num_layers = 2, .pages = {{1}, {2}}}};
  v1::RecallRequest request;
  LanesToProto(LanesOf(wants_), map_, &request);
  ASSERT_EQ(request.wants_size(), 1);
  EXPECT_EQ(request.wants(0).first_layer(), 0u);
  EXPECT_EQ(request.wants(0).num_layers(), 2u);
  ASSERT_EQ(request.wants(0).applied_size(), 2);
  EXPECT_EQ(request.wants(0).applied(0), 7u);
  EXPECT_EQ(request.wants(0).applied(1), 9u);
  PageLists pages;
  ASSERT_TRUE(wire::DecodeUnitList(request.wants(0).units(), 2, 3, &pages).ok());
  EXPECT_EQ(pages, wants_[0].pages);
}

TEST_F(RecallCodecTest, TheRestOfAQueryKeepsTheQueriesOfItsLayers) {
  std::vector<float> query(64);
  for (size_t i = 0; i < query.size(); ++i) query[i] = static_cast<float>(i);
  wants_ = {{.layer = 0,
             .num_layers = 2,
             .query = query,
             .candidates = {{.member = 1, .first_page = 2, .end_page = 4}},
             .num_pages = 2,
             .pooling = RecallPooling::kMaxS,
             .scale = 0.5f,
             .digest = DigestKind::kCentreRadius}};
  const std::vector<WantedLane> lanes = LanesOf(wants_);
  v1::RecallRequest request;
  LanesToProto(std::span(lanes).subspan(1), map_, &request);
  ASSERT_EQ(request.wants_size(), 1);
  EXPECT_EQ(request.wants(0).first_layer(), 1u);
  EXPECT_EQ(request.wants(0).num_layers(), 1u);
  const v1::QuerySelection& sent = request.wants(0).query();
  EXPECT_EQ(sent.queries(), wire::FloatsToBytes(std::span(query).subspan(32)));
  EXPECT_EQ(sent.dtype(), v1::DTYPE_F32);
  EXPECT_EQ(sent.pooling(), v1::POOLING_MAX_S);
  EXPECT_EQ(sent.scale(), 0.5f);
  EXPECT_EQ(sent.digest(), v1::DIGEST_KIND_CENTRE_RADIUS);
  ASSERT_EQ(sent.candidates_size(), 1);
  EXPECT_EQ(sent.candidates(0).member(), 1u);
  EXPECT_EQ(sent.candidates(0).first_page(), 2u);
  EXPECT_EQ(sent.candidates(0).end_page(), 4u);
}

TEST_F(RecallCodecTest, MapsNameTheLanesThatWereEverRecalled) {
  map_.lane(0, 0).applied = 4;
  v1::ResyncRequest request;
  MapToProto(map_, &request);
  ASSERT_EQ(request.lanes_size(), 1);
  EXPECT_EQ(request.lanes(0).layer(), 0u);
  EXPECT_EQ(request.lanes(0).applied(), 4u);
  wire::LaneSlots slots;
  ASSERT_TRUE(wire::DecodeLaneSlots(request.lanes(0).slots(), 6, &slots).ok());
  EXPECT_EQ(slots.pages, (std::vector<int32_t>{5, 6, -1, -1, -1, -1}));
  EXPECT_EQ(slots.generations, (std::vector<uint32_t>{4, 4, 0, 0, 0, 0}));
}

TEST(CheckUnitsTest, UnitsMayLieAcrossSlicesInAnyWay) {
  const std::vector<std::byte> bytes = testing::RandomBytes(3 * 64, 9);
  Payload whole;
  whole.Append(bytes);
  std::vector<uint32_t> checksums = testing::UnitChecksums(whole, 64);
  for (const size_t cut : {1u, 63u, 64u, 65u, 100u, 191u}) {
    Payload cut_up;
    cut_up.Append(Slice{std::span(bytes).first(cut), nullptr});
    cut_up.Append(Slice{std::span(bytes).subspan(cut), nullptr});
    EXPECT_TRUE(CheckUnits(cut_up, 3, 64, checksums).ok()) << cut;
    EXPECT_EQ(PayloadCrc32c(cut_up), PayloadCrc32c(whole));
  }
  checksums[1] ^= 1;
  const Status status = CheckUnits(whole, 3, 64, checksums);
  EXPECT_NE(Message(status).find("unit 1 "), std::string_view::npos) << status;
}

}  // namespace
}  // namespace quire::internal
