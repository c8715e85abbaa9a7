// SPDX-License-Identifier: Apache-2.0
#include "bench/stream/lossy_transport.h"

#include <gtest/gtest.h>

#include "common/transport/loopback_transport.h"

namespace quire::bench {
namespace {

constexpr char kMethod[] = "test.Service/Count";

/// Answers with the number of the call, in as many parts as it is asked for.
class CountingHandler final : public CallHandler {
 public:
  std::vector<std::string> Methods() const override { return {kMethod}; }
  Status Handle(const CallContext& context, std::string_view, const CallMessage& request,
                ReplyWriter& reply) override {
    ++calls;
    const size_t parts = context.max_parts == 1 ? 1 : request.control.size();
    for (size_t i = 0; i < parts; ++i) {
      QUIRE_RETURN_IF_ERROR(reply.Write({.control = std::to_string(calls), .payload = {}}));
    }
    return OkStatus();
  }
  int calls = 0;
};

class LossyTransportTest : public ::testing::Test {
 protected:
  LossyTransport Make(LossyTransport::Options options) {
    options.method = kMethod;
    return LossyTransport(inner_, options);
  }
  static StatusOr<std::string> Call(Transport& transport) {
    CallMessage reply;
    QUIRE_RETURN_IF_ERROR(transport.Call(kMethod, {.control = "x", .payload = {}}, &reply, {}));
    return reply.control;
  }

  CountingHandler handler_;
  const std::shared_ptr<Transport> inner_ =
      std::make_shared<LoopbackTransport>(&handler_, LoopbackTransport::Options{});
};

TEST_F(LossyTransportTest, WithoutFaultsItIsTheTransportBehindIt) {
  LossyTransport transport = Make({});
  EXPECT_EQ(*Call(transport), "1");
  EXPECT_EQ(transport.faults().total(), 0u);
  EXPECT_EQ(transport.capabilities().name, inner_->capabilities().name);
}

TEST_F(LossyTransportTest, TheServerHasAnsweredWhatIsDroppedOrDelayed) {
  LossyTransport dropping = Make({.drop_rate = 1});
  EXPECT_TRUE(absl::IsUnavailable(Call(dropping).status()));
  LossyTransport delaying = Make({.delay_rate = 1});
  EXPECT_TRUE(absl::IsDeadlineExceeded(Call(delaying).status()));
  EXPECT_EQ(handler_.calls, 2);
  EXPECT_EQ(dropping.faults().dropped, 1u);
  EXPECT_EQ(delaying.faults().delayed, 1u);
}

TEST_F(LossyTransportTest, ARepeatedReplyIsTheOneBefore) {
  LossyTransport transport = Make({.repeat_rate = 1});
  EXPECT_EQ(*Call(transport), "1") << "there is none before";
  EXPECT_EQ(*Call(transport), "1");
  EXPECT_EQ(*Call(transport), "2");
}

TEST_F(LossyTransportTest, APendingCallGivesALateReplyWhenItIsAskedAgain) {
  LossyTransport transport = Make({.delay_rate = 1});
  const auto call = transport.Start(kMethod, {.control = "ab", .payload = {}}, {});
  ASSERT_TRUE(call.ok());
  EXPECT_TRUE(absl::IsDeadlineExceeded((*call)->Next(TimePoint::max()).status()));
  for (int part = 0; part < 2; ++part) EXPECT_TRUE((*call)->Next(TimePoint::max())->has_value());
  EXPECT_FALSE((*call)->Next(TimePoint::max())->has_value());
}

TEST_F(LossyTransportTest, OtherMethodsAreLeftAlone) {
  LossyTransport transport(inner_, {.method = "test.Service/Other", .drop_rate = 1});
  EXPECT_TRUE(Call(transport).ok());
}

TEST_F(LossyTransportTest, TheSeedDecidesWhichCallsAreHit) {
  const LossyTransport::Options options = {.drop_rate = 0.1, .delay_rate = 0.1, .seed = 7};
  LossyTransport a = Make(options), b = Make(options);
  for (int i = 0; i < 200; ++i) {
    ASSERT_EQ(Call(a).status().code(), Call(b).status().code()) << "call " << i;
  }
  EXPECT_EQ(a.faults().total(), b.faults().total());
  EXPECT_GT(a.faults().dropped, 5u);
  EXPECT_GT(a.faults().delayed, 5u);
  EXPECT_EQ(a.faults().repeated, 0u);
}

}  // namespace
}  // namespace quire::bench
