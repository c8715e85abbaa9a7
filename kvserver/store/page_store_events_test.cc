// SPDX-License-Identifier: Apache-2.0
//
// Events of a store tell what it has, and where.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "kvserver/store/events/segment_event_log.h"
#include "kvserver/store/testing/page_store_fixture.h"
#include "quire/objects.h"
#include "tests/kit/fake_clock.h"

namespace quire::kvserver::testing {
namespace {

/// A store of 16 segments in DRAM and of 24 on SSD, and what a router knows of it.
class PageStoreEventsTest : public PageStoreTest {
 protected:
  void SetUp() override {
    spec_ = LargeUnitSpec();
    const uint64_t segment = SegmentBytes(spec_, spec_.segment_pages);
    options_.clock = &clock_;
    options_.dram_bytes = 16 * segment;
    options_.tenant_ssd_quota_bytes = {{"default", 24 * segment}};
    Open();
  }
  /// Takes over the list when there is a gap, and every event.
  void Follow() {
    for (;;) {
      const SegmentEvents read =
          store_->events()->Read({.tenant = "default", .after = position_, .max_events = 7});
      position_ = read.position;
      if (read.events.empty()) return;
      for (const SegmentEvent& event : read.events) Take(event);
    }
  }
  void Take(const SegmentEvent& event) {
    switch (event.kind) {
      case SegmentEventKind::kStored:
        known_.try_emplace(event.segment);
        break;
      case SegmentEventKind::kEvicted:
      case SegmentEventKind::kDeleted:
        known_.erase(event.segment);
        break;
      case SegmentEventKind::kEnteredDram:
      case SegmentEventKind::kLeftDram:
        in_dram_[event.segment] = event.kind == SegmentEventKind::kEnteredDram;
        break;
      case SegmentEventKind::kGap:
        ++gaps_;
        known_.clear();
        in_dram_.clear();
        for (const ListedSegment& listed : ListAll()) {
          known_.try_emplace(listed.segment);
          in_dram_[listed.segment] = listed.in_dram;
        }
        break;
    }
  }
  std::vector<ListedSegment> ListAll() {
    std::vector<ListedSegment> all;
    SegmentKey after = kRootKey;
    for (;;) {
      const auto page = store_->ListSegments("default", after, 5);
      if (page.empty()) return all;
      all.insert(all.end(), page.begin(), page.end());
      after = page.back().segment;
    }
  }
  /// Compares what the router knows with the store.
  void ExpectKnown() {
    const std::vector<ListedSegment> all = ListAll();
    EXPECT_EQ(known_.size(), all.size());
    for (const ListedSegment& listed : all) {
      EXPECT_TRUE(known_.contains(listed.segment));
      EXPECT_EQ(in_dram_[listed.segment], listed.in_dram);
    }
  }

  quire::testing::FakeClock clock_;
  uint64_t position_ = 0;
  std::map<SegmentKey, int> known_;
  std::map<SegmentKey, bool> in_dram_;
  int gaps_ = 0;
};

TEST_F(PageStoreEventsTest, AFollowerKnowsWhatTheStoreHasAndWhere) {
  constexpr uint64_t kSeed = 27;
  SCOPED_TRACE(::testing::Message() << "seed " << kSeed);
  SeededRandom random(kSeed);
  Follow();
  EXPECT_EQ(gaps_, 1) << "the first time";
  std::vector<TestSegment> put;
  for (uint64_t step = 0; step < 80; ++step) {
    clock_.Advance(std::chrono::seconds(1));
    const SegmentKey parent = !put.empty() && random.Below(2) == 0 && !put.back().tokens.empty()
                                  ? put.back().key
                                  : kRootKey;
    auto segment = PutTestSegment(*store_, spec_, step, parent);
    if (segment.ok()) put.push_back(*std::move(segment));
    if (random.Below(8) == 0) {
      (void)store_->DeleteSegment("default", put[random.Below(put.size())].key);
      (void)store_->Sweep();
    }
    if (random.Below(4) == 0) {
      (void)ReadSegment(*store_, spec_, put[random.Below(put.size())]);
      (void)store_->BringToDram("default", put[random.Below(put.size())].key);
    }
    if (random.Below(10) != 0) continue;
    Follow();
    ExpectKnown();
  }
  Follow();
  ExpectKnown();
  EXPECT_EQ(gaps_, 1);
  EXPECT_GT(Count("cached_evictions"), 10u);
  // A restart: positions of the earlier log are told from those of this one.
  clock_.Advance(std::chrono::seconds(1));
  Open();
  Follow();
  EXPECT_EQ(gaps_, 2);
  ExpectKnown();
}

TEST_F(PageStoreEventsTest, PrivatePagesObjectsAndOtherTenantsAreNotTold) {
  Follow();
  const TenantSalt salt = {1, 2, 3};
  const std::vector<TokenId> tokens = MakeTokens(spec_.segment_tokens(), 1);
  const std::vector<std::byte> payload = MakePayload(spec_, tokens.size(), 1);
  PutSegmentArgs args{.spec = &spec_, .tokens = tokens, .payload = payload};
  args.private_salt = &salt;
  SegmentHold hold;
  args.hold = &hold;
  ASSERT_TRUE(store_->PutSegment("default", args).ok());
  const ObjectToStore object{.key = "object", .size_bytes = 100};
  const std::vector<std::byte> bytes(ObjectShape::Of(100).stored_bytes());
  PutSegmentArgs put{.object = &object, .payload = bytes};
  ASSERT_TRUE(store_->PutSegment("default", put).ok());
  ASSERT_TRUE(PutTestSegment(*store_, spec_, 7, kRootKey, 0, Durability::kMemory, "other").ok());
  hold.Release();
  Follow();
  EXPECT_TRUE(known_.empty());
  EXPECT_TRUE(in_dram_.empty());
  EXPECT_TRUE(ListAll().empty());
}

}  // namespace
}  // namespace quire::kvserver::testing
