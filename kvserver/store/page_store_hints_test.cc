// SPDX-License-Identifier: Apache-2.0
//
// Hints: what conversations that go on keep, and what those that end give up.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "kvserver/store/testing/page_store_fixture.h"
#include "tests/kit/fake_clock.h"

namespace quire::kvserver::testing {
namespace {

/// A store of 16 segments in DRAM and of 24 on SSD, which are a cache.
class PageStoreHintsTest : public PageStoreTest {
 protected:
  static constexpr uint64_t kDramSegments = 16;
  static constexpr uint64_t kSsdSegments = 24;

  void SetUp() override {
    spec_ = LargeUnitSpec();
    options_.clock = &clock_;
    options_.dram_bytes = kDramSegments * segment_bytes();
    options_.tenant_ssd_quota_bytes = {{"default", kSsdSegments * segment_bytes()}};
    Open();
  }
  uint64_t segment_bytes() const { return SegmentBytes(spec_, spec_.segment_pages); }

  TestSegment PutOne(const Hints& hints, const SegmentKey& parent = kRootKey,
                     std::string_view tenant = "default") {
    clock_.Advance(std::chrono::seconds(1));
    TestSegment segment =
        PutTestSegment(*store_, spec_, ++seed_, parent, 0, Durability::kMemory, tenant).value();
    store_->NoteHints(tenant, hints, {&segment.key, 1});
    return segment;
  }
  bool IsStored(const TestSegment& segment) {
    return store_->ResolveChain("default", segment.key).ok();
  }
  bool IsInDram(const TestSegment& segment) {
    const auto chain = store_->ResolveChain("default", segment.key);
    if (!chain.ok()) return false;
    Chain one = **chain;
    one.keys = {segment.key};
    return store_->StatChain("default", one)->segments_in_dram == 1;
  }

  quire::testing::FakeClock clock_;
  uint64_t seed_ = 0;
};

/// Agents whose turns are two segments. Half of them call a tool and come back after as many other
/// turns as fit in DRAM; the others have ended.
struct Returned {
  uint64_t segments = 0;
  uint64_t stored = 0;
  uint64_t in_dram = 0;
};

class AgentTraceTest : public PageStoreHintsTest {
 protected:
  struct Agent {
    std::string name;
    std::vector<TestSegment> chain;
    bool returns = false;
  };
  static constexpr size_t kAgentsAtOnce = kDramSegments / 2;

  Hints HintsOf(const Agent& agent, bool hinted, uint64_t keep_seconds) {
    return hinted ? Hints{.conversation = agent.name, .keep_seconds = keep_seconds} : Hints();
  }
  Agent FirstTurn(size_t number, bool returns, bool hinted) {
    Agent agent{.name = "agent " + std::to_string(number), .returns = returns};
    for (int i = 0; i < 2; ++i) {
      const SegmentKey parent = agent.chain.empty() ? kRootKey : agent.chain.back().key;
      agent.chain.push_back(PutOne(HintsOf(agent, hinted, returns ? 600 : 0), parent));
    }
    if (!returns && hinted) EXPECT_TRUE(store_->ReleaseConversation("default", agent.name).ok());
    return agent;
  }
  void SecondTurn(const Agent& agent, bool hinted, Returned* returned) {
    for (const TestSegment& segment : agent.chain) {
      ++returned->segments;
      if (IsInDram(segment)) ++returned->in_dram;
      if (!IsStored(segment)) continue;
      ++returned->stored;
      EXPECT_TRUE(ReadSegment(*store_, spec_, segment).ok());
      store_->NoteHints("default", HintsOf(agent, hinted, 0), {&segment.key, 1});
    }
    if (IsStored(agent.chain.back())) PutOne(HintsOf(agent, hinted, 0), agent.chain.back().key);
    if (hinted) EXPECT_TRUE(store_->ReleaseConversation("default", agent.name).ok());
  }
  Returned Replay(uint64_t seed, bool hinted) {
    seed_ = seed * 1'000'000;
    SeededRandom random(seed);
    Returned returned;
    std::vector<Agent> waiting;
    for (size_t round = 0, number = 0; round < 12; ++round) {
      std::vector<bool> returns(kAgentsAtOnce);
      std::fill_n(returns.begin(), kAgentsAtOnce / 2, true);
      for (size_t i = returns.size(); i > 1; --i) {
        const size_t other = random.Below(i);
        const bool taken = returns[i - 1];
        returns[i - 1] = returns[other];
        returns[other] = taken;
      }
      std::vector<Agent> next;
      for (const bool one : returns) {
        Agent agent = FirstTurn(number++, one, hinted);
        if (one) next.push_back(std::move(agent));
        // Those of the round before come back, spread over this one.
        if (number % 2 == 0 && !waiting.empty()) {
          SecondTurn(waiting.back(), hinted, &returned);
          waiting.pop_back();
        }
      }
      waiting = std::move(next);
    }
    return returned;
  }
};

TEST_F(AgentTraceTest, WhatReturnsAfterAToolCallIsKept) {
  constexpr uint64_t kSeed = 26;
  SCOPED_TRACE(::testing::Message() << "seed " << kSeed);
  const Returned hinted = Replay(kSeed, /*hinted=*/true);
  Open();
  const Returned plain = Replay(kSeed + 1, /*hinted=*/false);
  ASSERT_EQ(hinted.segments, plain.segments);
  ASSERT_GT(hinted.segments, 80u);
  EXPECT_EQ(hinted.in_dram, hinted.segments) << "and without hints " << plain.in_dram;
  EXPECT_EQ(hinted.stored, hinted.segments);
  EXPECT_LT(plain.in_dram, plain.segments * 3 / 4);
  RecordProperty("plain_in_dram", static_cast<int>(plain.in_dram));
  RecordProperty("plain_stored", static_cast<int>(plain.stored));
}

TEST_F(PageStoreHintsTest, WhatIsReleasedLeavesFirstUnlessItIsUsedAgain) {
  std::vector<TestSegment> plain;
  for (int i = 0; i < 4; ++i) plain.push_back(PutOne({}));
  const TestSegment shared = PutOne({.conversation = "a"});
  store_->NoteHints("default", {.conversation = "b"}, {&shared.key, 1});
  std::vector<TestSegment> released;
  for (int i = 0; i < 6; ++i) released.push_back(PutOne({.conversation = "a"}));
  EXPECT_EQ(store_->ReleaseConversation("default", "a").value(), 6u) << "b still uses one";
  EXPECT_EQ(store_->ReleaseConversation("default", "a").status().code(), StatusCode::kNotFound);
  ASSERT_TRUE(ReadSegment(*store_, spec_, released[0]).ok());
  for (int i = 0; i < 10; ++i) PutOne({});  // Fills DRAM, and five more.
  for (const TestSegment& segment : plain) EXPECT_TRUE(IsInDram(segment));
  EXPECT_TRUE(IsInDram(shared));
  EXPECT_TRUE(IsInDram(released[0])) << "it was read after the release";
  for (int i = 1; i < 6; ++i) EXPECT_FALSE(IsInDram(released[static_cast<size_t>(i)])) << i;
}

TEST_F(PageStoreHintsTest, KeepsAndPrioritiesOrderWhatLeavesUntilTheyAreOver) {
  const TestSegment kept = PutOne({.keep_seconds = 1000});
  const TestSegment high = PutOne({.priority = KeepPriority::kHigh});
  const TestSegment plain = PutOne({});
  const TestSegment low = PutOne({.priority = KeepPriority::kLow});
  for (uint64_t i = 4; i < kDramSegments; ++i) PutOne({});
  PutOne({});
  EXPECT_FALSE(IsInDram(low)) << "before older ones";
  EXPECT_TRUE(IsInDram(plain));
  for (uint64_t i = 0; i < kDramSegments; ++i) PutOne({});
  EXPECT_FALSE(IsInDram(plain));
  EXPECT_TRUE(IsInDram(high));
  EXPECT_TRUE(IsInDram(kept));
  clock_.Advance(std::chrono::hours(2));
  ASSERT_TRUE(store_->Sweep().ok());
  EXPECT_EQ(Count("dram_bytes_raised"), 0u);
  for (uint64_t i = 0; i < kDramSegments; ++i) PutOne({});
  EXPECT_FALSE(IsInDram(kept));
  EXPECT_FALSE(IsInDram(high));
}

TEST_F(PageStoreHintsTest, NobodyKeepsMoreThanAShareAndNobodyIsRefused) {
  for (uint64_t i = 0; i < 3 * kSsdSegments; ++i) PutOne({.conversation = "c", .keep_seconds = 60});
  EXPECT_EQ(Count("dram_bytes_raised"), options_.dram_bytes / 2);
  EXPECT_EQ(Count("ssd_bytes_raised"), kSsdSegments / 2 * segment_bytes());
  EXPECT_GT(Count("dram_not_raised"), 0u);
  EXPECT_EQ(Count("dram_refused"), 0u);
  const TestSegment other = PutOne({}, kRootKey, "other");
  EXPECT_TRUE(ReadSegment(*store_, spec_, other, "other").ok());
  EXPECT_EQ(store_->UseOf("other").dram_bytes, segment_bytes()) << "it has room";
}

TEST_F(PageStoreHintsTest, WhatAConversationUsedLastComesBackToDram) {
  std::vector<TestSegment> chain;
  for (int i = 0; i < 4; ++i) {
    chain.push_back(PutOne({.conversation = "agent"}, chain.empty() ? kRootKey : chain.back().key));
  }
  for (uint64_t i = 0; i < kDramSegments; ++i) PutOne({});
  for (const TestSegment& segment : chain) ASSERT_FALSE(IsInDram(segment));
  {
    const auto held = store_->HoldConversation("default", "agent");
    ASSERT_TRUE(held.ok()) << held.status();
    ASSERT_EQ(held->chain->keys.size(), 4u);
    EXPECT_EQ(held->chain->keys.back(), chain.back().key);
    for (const SegmentKey& key : held->chain->keys) {
      EXPECT_TRUE(store_->BringToDram("default", key).ok());
    }
  }
  for (const TestSegment& segment : chain) EXPECT_TRUE(IsInDram(segment));
  // The rest of a chain that has begun to leave is found, too.
  ASSERT_TRUE(store_->DeleteSegment("default", chain.back().key).ok());
  EXPECT_EQ(store_->HoldConversation("default", "agent")->chain->keys.size(), 3u);
  EXPECT_EQ(store_->HoldConversation("other", "agent").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace quire::kvserver::testing
