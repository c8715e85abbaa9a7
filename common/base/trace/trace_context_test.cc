// SPDX-License-Identifier: Apache-2.0
#include "common/base/trace/trace_context.h"

#include <gtest/gtest.h>

#include "common/base/trace/trace_sampler.h"

namespace quire {
namespace {

constexpr char kExample[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

TEST(TraceparentTest, TheStandardsExampleIsReadAndWrittenAsItIs) {
  const auto context = ParseTraceparent(kExample);
  ASSERT_TRUE(context);
  EXPECT_EQ(context->trace_id[0], 0x4b);
  EXPECT_EQ(context->span_id[7], 0xb7);
  EXPECT_TRUE(context->sampled);
  EXPECT_EQ(FormatTraceparent(*context), kExample);
  TraceContext unsampled = *context;
  unsampled.sampled = false;
  EXPECT_EQ(ParseTraceparent(FormatTraceparent(unsampled)), unsampled);
}

TEST(TraceparentTest, WhatIsMalformedIsNoContext) {
  const std::string good = kExample;
  for (size_t i = 0; i < good.size(); ++i) {
    EXPECT_FALSE(ParseTraceparent(good.substr(0, i))) << i;
    for (const char wrong : {'x', 'A', '\0', ' '}) {
      std::string bad = good;
      bad[i] = wrong;
      EXPECT_FALSE(ParseTraceparent(bad)) << bad;
    }
  }
  EXPECT_FALSE(ParseTraceparent(good + "-00")) << "version 0 has no more";
  EXPECT_FALSE(ParseTraceparent("ff" + good.substr(2)));
  EXPECT_FALSE(ParseTraceparent("00-" + std::string(32, '0') + good.substr(35)));
  EXPECT_FALSE(ParseTraceparent(good.substr(0, 36) + std::string(16, '0') + "-01"));
}

TEST(TraceparentTest, ALaterVersionIsReadAsFarAsItIsKnown) {
  const std::string later = "01" + std::string(kExample).substr(2);
  EXPECT_TRUE(ParseTraceparent(later));
  EXPECT_TRUE(ParseTraceparent(later + "-and-more"));
  EXPECT_FALSE(ParseTraceparent(later + "more"));
}

TEST(TraceSamplerTest, CallsFollowTheirCallerAndOthersTheRatio) {
  const TraceContext parent = *ParseTraceparent(kExample);
  TraceContext unsampled = parent;
  unsampled.sampled = false;
  TraceId low = {}, high = {};
  high.fill(0xff);
  const TraceSampler half{.ratio = 0.5};
  EXPECT_TRUE(half.Samples(low, {}));
  EXPECT_FALSE(half.Samples(high, {}));
  EXPECT_TRUE(half.Samples(high, parent));
  EXPECT_FALSE(half.Samples(low, unsampled));
  const TraceSampler alone{.ratio = 0.5, .parent_based = false};
  EXPECT_FALSE(alone.Samples(high, parent));
  EXPECT_TRUE(alone.Samples(low, unsampled));
  EXPECT_FALSE(TraceSampler{.ratio = 0}.Samples(low, {}));
  EXPECT_TRUE(TraceSampler{}.Samples(high, {}));
}

}  // namespace
}  // namespace quire
