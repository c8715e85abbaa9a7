// SPDX-License-Identifier: Apache-2.0
//
// A recall's reply is believed only when it fits the request, the worker's map and its checksums.
#include "client/recall_codec.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "client/client_test_kit.h"
#include "client/validate.h"

namespace quire {
namespace {

using testing::RandomPayload;

/// The worker holds pages 5 and 6 at head 0 of layer 0 (slots 0 and 1, generation 4), slot 2 is
/// empty; it wants {5, 7, 8} there and {1} at head 1.
class RecallCodecTest : public ::testing::Test {
 protected:
  RecallCodecTest() : map_({0, 1}, 2, 3) {
    map_.Place({.layer = 0, .head = 0, .slot = 0, .generation = 4, .page = 5});
    map_.Place({.layer = 0, .head = 0, .slot = 1, .generation = 4, .page = 6});
    request_.set_sequence(3);
    request_.set_epoch(2);
    wants_ = {LayerWant{.layer = 0, .pages = {{5, 7, 8}, {1}}}};
    reply_.set_sequence(3);
    reply_.set_epoch(2);
    v1::LayerPlacement& layer = *reply_.add_layers();
    AddPlacements(layer.add_heads(), {{1, 5, 7, 6}, {2, 1, 8, -1}});
    AddPlacements(layer.add_heads(), {{0, 1, 1, -1}});
    payload_ = RandomPayload(3 * UnitBytes(spec_), 1);
    SetChecksums();
  }

  struct Row {
    uint32_t slot, generation, page;
    int32_t replaced;
  };
  static void AddPlacements(v1::HeadPlacement* head, const std::vector<Row>& rows) {
    for (const Row& row : rows) {
      head->add_slots(row.slot);
      head->add_generations(row.generation);
      head->add_pages(row.page);
      head->add_replaced(row.replaced);
    }
  }
  void SetChecksums() {
    const auto checksums = testing::UnitChecksums(payload_, UnitBytes(spec_));
    reply_.mutable_unit_crc32c()->Assign(checksums.begin(), checksums.end());
  }
  v1::HeadPlacement& Head(int head) { return *reply_.mutable_layers(0)->mutable_heads(head); }
  StatusOr<RecallResult> Read() const {
    return RecallFromProto(reply_, payload_, request_, wants_, spec_, map_);
  }

  const KvSpec spec_ = testing::TinySpec();
  ResidentMap map_;
  std::vector<LayerWant> wants_;
  v1::RecallRequest request_;
  v1::RecallReply reply_;
  Payload payload_;
};

TEST_F(RecallCodecTest, AReplyThatFitsGivesItsPlacementsInPayloadOrder) {
  const auto result = Read();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->sequence, 3u);
  ASSERT_EQ(result->placements.size(), 3u);
  EXPECT_EQ(result->placements[0].page, 7u);
  EXPECT_EQ(result->placements[0].replaced, 6);
  EXPECT_EQ(result->placements[2].head, 1u);
  ASSERT_EQ(result->selected.size(), 1u);
  EXPECT_TRUE(result->selected[0].empty());
}

TEST_F(RecallCodecTest, EverythingResidentNeedsNoBytes) {
  wants_[0].pages = {{5, 6}, {}};
  reply_.mutable_layers(0)->clear_heads();
  reply_.mutable_layers(0)->add_heads();
  reply_.mutable_layers(0)->add_heads();
  reply_.clear_unit_crc32c();
  payload_ = {};
  const auto result = Read();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->placements.empty());
}

TEST_F(RecallCodecTest, RepliesThatLieInAnyWayAreRefused) {
  using Lie = std::pair<const char*, std::function<void()>>;
  const std::vector<Lie> lies = {
      {"sequence", [this] { reply_.set_sequence(2); }},
      {"epoch", [this] { reply_.set_epoch(1); }},
      {"no layers", [this] { reply_.clear_layers(); }},
      {"a layer more", [this] { *reply_.add_layers() = reply_.layers(0); }},
      {"another layer", [this] { reply_.mutable_layers(0)->set_layer(1); }},
      {"a head less", [this] { reply_.mutable_layers(0)->mutable_heads()->RemoveLast(); }},
      {"a selection nobody asked for", [this] { reply_.mutable_layers(0)->add_selected(); }},
      {"arrays of different lengths", [this] { Head(0).mutable_pages()->RemoveLast(); }},
      {"a slot that does not exist", [this] { Head(0).set_slots(1, 3); }},
      {"a stale generation", [this] { Head(0).set_generations(0, 4); }},
      {"a generation skipped", [this] { Head(0).set_generations(0, 6); }},
      {"another page replaced", [this] { Head(0).set_replaced(0, 5); }},
      {"a page nobody asked for", [this] { Head(0).set_pages(0, 9); }},
      {"a page placed twice", [this] { Head(0).set_pages(1, 7); }},
      {"a wanted page overwritten",
       [this] {
         Head(0).set_slots(0, 0);
         Head(0).set_replaced(0, 5);
       }},
      {"a wanted page missing",
       [this] {
         Head(1).Clear();
         payload_ = RandomPayload(2 * UnitBytes(spec_), 1);
         SetChecksums();
       }},
      {"a flipped bit", [this] { payload_ = RandomPayload(3 * UnitBytes(spec_), 2); }},
      {"a checksum less", [this] { reply_.mutable_unit_crc32c()->RemoveLast(); }},
      {"a byte less", [this] { payload_ = RandomPayload(3 * UnitBytes(spec_) - 1, 1); }},
      {"no payload", [this] { payload_ = {}; }},
  };
  const v1::RecallReply good_reply = reply_;
  const Payload good_payload = payload_;
  for (const auto& [name, lie] : lies) {
    reply_ = good_reply;
    payload_ = good_payload;
    lie();
    EXPECT_TRUE(absl::IsDataLoss(Read().status())) << name << ": " << Read().status();
  }
}

TEST_F(RecallCodecTest, ASelectionByTheServerMustKeepToItsCandidates) {
  wants_ = {LayerWant{.layer = 0,
                      .pages = {},
                      .query = std::vector<float>(32),
                      .first_page = 5,
                      .end_page = 9,
                      .num_pages = 3}};
  v1::LayerPlacement& layer = *reply_.mutable_layers(0);
  const auto select = [&](std::vector<uint32_t> first, std::vector<uint32_t> second) {
    layer.clear_selected();
    layer.add_selected()->mutable_pages()->Add(first.begin(), first.end());
    layer.add_selected()->mutable_pages()->Add(second.begin(), second.end());
    return Read();
  };
  layer.mutable_heads(1)->set_pages(0, 6);
  const auto result = select({5, 7, 8}, {6});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->selected[0][0], (std::vector<uint32_t>{5, 7, 8}));
  EXPECT_TRUE(absl::IsDataLoss(select({5, 7, 9}, {6}).status()));
  EXPECT_TRUE(absl::IsDataLoss(select({4, 7, 8}, {6}).status()));
  EXPECT_TRUE(absl::IsDataLoss(select({7, 5, 8}, {6}).status()));
  EXPECT_TRUE(absl::IsDataLoss(select({5, 7, 8}, {5, 6, 7, 8}).status()));
  EXPECT_TRUE(absl::IsDataLoss(select({5, 6, 7}, {6}).status()));
  layer.clear_selected();
  EXPECT_TRUE(absl::IsDataLoss(Read().status()));
}

TEST_F(RecallCodecTest, WantsThatCannotBeRightAreNamedBeforeTheyAreSent) {
  const auto refused = [&](const std::vector<LayerWant>& wants) {
    return absl::IsInvalidArgument(CheckWants(wants, spec_, map_));
  };
  LayerWant query{.layer = 0, .query = std::vector<float>(32), .end_page = 4, .num_pages = 2};
  EXPECT_FALSE(refused(wants_));
  EXPECT_FALSE(refused({query}));
  EXPECT_TRUE(refused({}));
  EXPECT_TRUE(refused({wants_[0], wants_[0]}));
  EXPECT_TRUE(refused({{.layer = 2, .pages = {{1}, {1}}}}));
  EXPECT_TRUE(refused({{.layer = 0, .pages = {{1}}}}));
  EXPECT_TRUE(refused({{.layer = 0, .pages = {{1, 1}, {}}}}));
  EXPECT_TRUE(refused({{.layer = 0, .pages = {{2, 1}, {}}}}));
  EXPECT_TRUE(refused({{.layer = 0, .pages = {{1, 2, 3, 4}, {}}}}));
  EXPECT_TRUE(refused({{.layer = 0, .pages = {{UINT32_MAX}, {}}}}));
  EXPECT_TRUE(refused({{.layer = 0, .pages = {}}}));
  query.num_pages = 4;
  EXPECT_TRUE(refused({query}));
  query.num_pages = 2;
  query.end_page = 0;
  EXPECT_TRUE(refused({query}));
  query.end_page = 4;
  query.query.pop_back();
  EXPECT_TRUE(refused({query}));
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
}  // namespace quire
