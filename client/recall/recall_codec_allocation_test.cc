// SPDX-License-Identifier: Apache-2.0
//
// Encoding a request and taking a part allocate as often for ten thousand units as for a thousand.
// Vectors that grow by doubling are the exception.
#include <gtest/gtest.h>

#include <bit>
#include <numeric>
#include <vector>

#include "client/recall/recall_codec.h"
#include "client/recall_test_kit.h"
#include "tests/kit/allocation_count.h"

namespace quire::testing {

using namespace internal;
namespace {

constexpr uint32_t kFew = 1000, kMany = 10000;
constexpr uint32_t kSlots = kMany / 2;  ///< Two heads.
constexpr uint64_t kDoublings = 3 * static_cast<uint64_t>(std::bit_width(kMany / kFew));

class RecallCodecAllocationTest : public ::testing::Test {
 protected:
  RecallCodecAllocationTest() { map_.AddSequence(0, kSlots); }

  /// A want of `units` units of layer 0.
  static LayerWant WantOf(uint32_t units) {
    std::vector<uint32_t> pages(units / 2);
    std::iota(pages.begin(), pages.end(), 0u);
    LayerWant want;
    want.pages.AppendHead(pages);
    want.pages.RepeatHead();
    return want;
  }
  /// The part that brings all of it into empty slots, as one slice for all units.
  void PartOf(uint32_t units, v1::RecallReply* reply, CallMessage* body) const {
    LaneRows rows;
    for (uint32_t i = 0; i < units; ++i) {
      const uint32_t page = i % (units / 2);
      rows.rows.push_back({.head = i / (units / 2), .slot = page, .page = page});
    }
    reply->set_epoch(1);
    reply->set_exchange(1);
    AddLane(spec_, rows, reply, &body->payload);
    body->control = reply->SerializeAsString();
  }

  const KvSpec spec_ = TinySpec();
  WorkerSlots map_{ManagedLayers({0, 1}), spec_.num_kv_heads, kSlots};
};

TEST_F(RecallCodecAllocationTest, EncodingManyUnitsAllocatesAsOftenAsFew) {
  const auto allocations = [&](uint32_t units) {
    const std::vector<LayerWant> wants = {WantOf(units)};
    const uint64_t before = AllocationsOfThisThread();
    v1::RecallRequest request;
    LanesToProto(LanesOf(wants), map_, &request);
    const std::string bytes = request.SerializeAsString();
    return AllocationsOfThisThread() - before;
  };
  (void)allocations(kMany);
  const uint64_t few = allocations(kFew);
  EXPECT_LE(allocations(kMany), few + kDoublings);
  EXPECT_LT(few, kFew / 8) << "they are not counted in units";
}

TEST_F(RecallCodecAllocationTest, TakingAPartOfManyUnitsAllocatesAsOftenAsOfFew) {
  const auto allocations = [&](uint32_t units) {
    v1::RecallReply reply;
    CallMessage body;
    PartOf(units, &reply, &body);
    const std::vector<LayerWant> wants = {WantOf(units)};
    const std::vector<WantedLane> lanes = LanesOf(wants);
    const uint64_t before = AllocationsOfThisThread();
    v1::RecallReply parsed;
    EXPECT_TRUE(parsed.ParseFromString(body.control));
    const auto part = PartFromProto(parsed, std::move(body),
                                    {.epoch = 1,
                                     .exchange = 1,
                                     .lanes = lanes,
                                     .sizes = UnitSizes(spec_, UnitPart::kWhole, {}),
                                     .map = &map_});
    EXPECT_TRUE(part.ok() && part->placements.size() == units) << part.status();
    return AllocationsOfThisThread() - before;
  };
  (void)allocations(kMany);
  const uint64_t few = allocations(kFew);
  EXPECT_LE(allocations(kMany), few + kDoublings);
  EXPECT_LT(few, kFew / 8) << "they are not counted in units";
}

}  // namespace
}  // namespace quire::testing
