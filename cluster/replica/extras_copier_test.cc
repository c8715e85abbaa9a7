// SPDX-License-Identifier: Apache-2.0
#include "cluster/replica/extras_copier.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "cluster/replica/testing/fake_nodes.h"

namespace quire::cluster {
namespace {

using testing::FakeChain;
using testing::FakeNode;
using testing::FakePeers;

class ExtrasCopierTest : public ::testing::Test {
 protected:
  ExtrasCopierTest() { peers_.nodes = {{"a", &source_}, {"b", &here_}}; }
  /// An extra that names the second half of a chain, as a variant does.
  static ExtraCopy ExtraOver(const std::string& name, const ChainDescription& chain) {
    return {.extra = {.name = name, .num_segments = 2},
            .bytes = "",
            .segments = {chain.keys[chain.keys.size() - 2], chain.keys.back()}};
  }
  Status Take(std::vector<ExtraCopy> extras) {
    return copier_.Take("default", kName, {{.name = "a"}}, std::move(extras));
  }
  bool HasAll(const ChainDescription& chain) const {
    return std::ranges::all_of(chain.keys,
                               [this](const SegmentKey& key) { return here_.HasSegment(key); });
  }
  const std::vector<std::string>& ExtrasHere() { return here_.extras_[kName.name]; }

  static inline const DocumentName kName = {.name = "x", .version = 1};
  FakeNode source_, here_;
  FakePeers peers_;
  ExtrasCopier copier_{&here_, &here_, &peers_};
};

TEST_F(ExtrasCopierTest, ExtrasWithSegmentsFollowTheirChains) {
  const ChainDescription one = FakeChain(1, 4), two = FakeChain(2, 3);
  source_.PutChain(one);
  source_.PutChain(two);
  ExtraCopy both = ExtraOver("variants", one);
  both.segments.insert(both.segments.end(), two.keys.begin() + 1, two.keys.end());
  ASSERT_TRUE(Take({{.extra = {.name = "plain"}, .bytes = ""}, both}).ok());
  EXPECT_EQ(ExtrasHere(), (std::vector<std::string>{"plain"}));
  EXPECT_EQ(copier_.num_waiting(), 1u);
  EXPECT_TRUE(copier_.Awaits("default", kName));
  EXPECT_FALSE(copier_.Awaits("default", {.name = "x", .version = 2}));
  copier_.Advance([] { return true; });
  EXPECT_TRUE(HasAll(one));
  EXPECT_TRUE(HasAll(two));
  EXPECT_EQ(ExtrasHere(), (std::vector<std::string>{"plain", "variants"}));
  EXPECT_EQ(here_.extra_segments_["variants"], both.segments);
  EXPECT_EQ(copier_.copied_bytes(), 7 * FakeNode::kSegmentBytes);
  EXPECT_EQ(copier_.num_waiting(), 0u);
  EXPECT_FALSE(copier_.Awaits("default", kName));
}

TEST_F(ExtrasCopierTest, ACopyPausesBetweenSegmentsAndGoesOn) {
  const ChainDescription chain = FakeChain(1, 5);
  source_.PutChain(chain);
  ASSERT_TRUE(Take({ExtraOver("variants", chain)}).ok());
  for (int step = 0; step < 20 && copier_.num_waiting() > 0; ++step) {
    int left = 2;
    copier_.Advance([&] { return left-- > 0; });
    EXPECT_LE(copier_.copied_bytes(), 2 * (step + 1) * FakeNode::kSegmentBytes);
    EXPECT_EQ(copier_.Awaits("default", kName), ExtrasHere().empty());
  }
  EXPECT_TRUE(HasAll(chain));
  EXPECT_EQ(ExtrasHere().size(), 1u);
  EXPECT_EQ(copier_.copied_bytes(), 5 * FakeNode::kSegmentBytes) << "none was copied twice";
}

TEST_F(ExtrasCopierTest, WhatTheSourceLostIsLeftOut) {
  const ChainDescription kept = FakeChain(1, 3), lost = FakeChain(2, 3);
  source_.PutChain(kept);
  ExtraCopy both = ExtraOver("variants", lost);
  both.segments.insert(both.segments.end(), kept.keys.begin(), kept.keys.end());
  ASSERT_TRUE(Take({both}).ok());
  copier_.Advance([] { return true; });
  EXPECT_TRUE(HasAll(kept));
  EXPECT_FALSE(here_.HasSegment(lost.keys.back()));
  EXPECT_EQ(ExtrasHere().size(), 1u);
}

TEST_F(ExtrasCopierTest, ExtrasThatWaitAreBounded) {
  const ChainDescription chain = FakeChain(1, 3);
  const std::vector<ExtraCopy> many(ExtrasCopier::kMostWaiting + 10, ExtraOver("v", chain));
  ASSERT_TRUE(Take(many).ok());
  EXPECT_EQ(copier_.num_waiting(), ExtrasCopier::kMostWaiting);
  copier_.Advance([] { return true; });
  EXPECT_FALSE(copier_.Awaits("default", kName));
}

}  // namespace
}  // namespace quire::cluster
