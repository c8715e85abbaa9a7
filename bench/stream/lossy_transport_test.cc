// SPDX-License-Identifier: Apache-2.0
#include "bench/stream/lossy_transport.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/kit/fake_clock.h"
#include "transport/local/loopback_transport.h"

namespace quire::bench {
namespace {

using std::chrono::milliseconds;

constexpr char kMethod[] = "test.Service/Count";

/// Answers with the number of the call, and a letter of the request in each part.
class CountingHandler final : public CallHandler {
 public:
  std::vector<std::string> Methods() const override { return {kMethod}; }
  Status Handle(const CallContext&, std::string_view, const CallMessage& request,
                ReplyWriter& reply) override {
    ++calls;
    for (const char letter : request.control) {
      QUIRE_RETURN_IF_ERROR(
          reply.Write({.control = std::to_string(calls) + letter, .payload = {}}));
    }
    return OkStatus();
  }
  int calls = 0;
};

class LossyTransportTest : public ::testing::Test {
 protected:
  LossyTransport Make(LossyTransport::Options options) {
    options.method = kMethod;
    options.clock = &clock_;
    return LossyTransport(inner_, options);
  }
  static std::unique_ptr<PendingCall> Start(Transport& transport, Duration timeout = kTimeout) {
    auto call = transport.Start(kMethod, {.control = "ab", .payload = {}}, {.timeout = timeout});
    EXPECT_TRUE(call.ok()) << call.status();
    return *std::move(call);
  }
  /// Parts of a call before its end, and its status.
  struct Heard {
    std::vector<std::string> parts;
    Status end;
  };
  static Heard Hear(PendingCall& call) {
    Heard heard;
    while (true) {
      auto part = call.Next(TimePoint::max());
      heard.end = part.status();
      if (!part.ok() || !part->has_value()) return heard;
      heard.parts.push_back((*part)->control);
    }
  }
  static Heard Run(Transport& transport) { return Hear(*Start(transport)); }

  static constexpr Duration kTimeout = milliseconds(100);
  using Strings = std::vector<std::string>;

  testing::FakeClock clock_;
  CountingHandler handler_;
  const std::shared_ptr<Transport> inner_ =
      std::make_shared<LoopbackTransport>(&handler_, LoopbackTransport::Options{.clock = &clock_});
};

TEST_F(LossyTransportTest, WithoutFaultsItIsTheTransportBehindIt) {
  LossyTransport transport = Make({});
  const Heard heard = Run(transport);
  EXPECT_TRUE(heard.end.ok()) << heard.end;
  EXPECT_EQ(heard.parts, (Strings{"1a", "1b"}));
  EXPECT_EQ(transport.faults().total(), 0u);
  EXPECT_EQ(transport.capabilities().name, inner_->capabilities().name);
  CallMessage reply;
  ASSERT_TRUE(transport.Call(kMethod, {.control = "x", .payload = {}}, &reply, {}).ok());
  EXPECT_EQ(reply.control, "2x");
}

TEST_F(LossyTransportTest, ADroppedReplyNeverComesThoughTheServerHasAnswered) {
  LossyTransport transport = Make({.drop_rate = 1});
  const auto call = Start(transport);
  EXPECT_TRUE(absl::IsDeadlineExceeded(call->Next(clock_.Now() + milliseconds(30)).status()));
  EXPECT_EQ(clock_.Now(), TimePoint(milliseconds(30)));
  const Heard heard = Hear(*call);
  EXPECT_TRUE(absl::IsDeadlineExceeded(heard.end)) << heard.end;
  EXPECT_TRUE(heard.parts.empty());
  EXPECT_EQ(clock_.Now(), TimePoint(kTimeout)) << "the call's own time is up";
  EXPECT_EQ(handler_.calls, 1);
  EXPECT_EQ(transport.faults().dropped, 1u);
}

TEST_F(LossyTransportTest, ALateReplyComesToWhoWaitsLongEnough) {
  LossyTransport transport = Make({.late_rate = 1, .late_by = milliseconds(5)});
  const auto call = Start(transport);
  EXPECT_TRUE(absl::IsDeadlineExceeded(call->Next(clock_.Now() + milliseconds(2)).status()));
  EXPECT_EQ(transport.faults().late, 0u) << "it has not come";
  const Heard heard = Hear(*call);
  EXPECT_TRUE(heard.end.ok()) << heard.end;
  EXPECT_EQ(heard.parts, (Strings{"1a", "1b"}));
  EXPECT_EQ(clock_.Now(), TimePoint(milliseconds(5)));
  EXPECT_EQ(transport.faults().late, 1u);
}

TEST_F(LossyTransportTest, AStaleReplyComesInACallThatIsMadeAfterItsOwnWasGivenUp) {
  LossyTransport stale = Make({.stale_rate = 1});
  auto given_up = Start(stale);
  EXPECT_TRUE(absl::IsDeadlineExceeded(Hear(*given_up).end));
  EXPECT_EQ(stale.faults().stale, 0u) << "nobody has been given it";
  given_up.reset();
  // Some of the later calls are stale themselves, and deliver nothing.
  LossyTransport half = Make({.stale_rate = 0.5, .seed = 3});
  uint64_t calls = 1, strayed = 0;
  Strings waiting;
  for (int i = 0; i < 20; ++i) {
    const std::string own = std::to_string(++calls);
    const Heard heard = Run(half);
    if (!heard.end.ok()) {
      waiting.insert(waiting.end(), {own + "a", own + "b"});
      continue;
    }
    strayed += waiting.empty() ? 0 : 1;
    waiting.insert(waiting.end(), {own + "a", own + "b"});
    EXPECT_EQ(heard.parts, waiting);
    waiting.clear();
  }
  EXPECT_GT(strayed, 2u);
  EXPECT_EQ(half.faults().stale, strayed);
}

TEST_F(LossyTransportTest, OfADuplicatedReplyEveryPartComesTwice) {
  LossyTransport transport = Make({.duplicate_rate = 1});
  const Heard heard = Run(transport);
  EXPECT_TRUE(heard.end.ok()) << heard.end;
  EXPECT_EQ(heard.parts, (Strings{"1a", "1a", "1b", "1b"}));
  EXPECT_EQ(transport.faults().duplicated, 1u) << "one reply";
}

TEST_F(LossyTransportTest, AReplayedReplyComesBeforeTheCallsOwn) {
  LossyTransport transport = Make({.replay_rate = 1});
  EXPECT_EQ(Run(transport).parts, (Strings{"1a", "1b"})) << "there is none before";
  EXPECT_EQ(Run(transport).parts, (Strings{"1a", "1b", "2a", "2b"}));
  EXPECT_EQ(Run(transport).parts, (Strings{"2a", "2b", "3a", "3b"}));
  EXPECT_EQ(transport.faults().replayed, 2u);
}

TEST_F(LossyTransportTest, ACancelledCallBringsNothingMore) {
  LossyTransport transport = Make({.duplicate_rate = 1});
  const auto call = Start(transport);
  ASSERT_TRUE(call->Next(TimePoint::max()).ok());
  call->Cancel();
  EXPECT_EQ(call->Next(TimePoint::max()).status().code(), StatusCode::kCancelled);
}

TEST_F(LossyTransportTest, OtherMethodsAreLeftAlone) {
  LossyTransport transport(inner_,
                           {.method = "test.Service/Other", .drop_rate = 1, .clock = &clock_});
  EXPECT_EQ(Run(transport).parts, (Strings{"1a", "1b"}));
  EXPECT_EQ(transport.faults().total(), 0u);
}

TEST_F(LossyTransportTest, TheSeedDecidesWhichCallsAreHit) {
  const LossyTransport::Options options = {
      .drop_rate = 0.1, .late_rate = 0.1, .duplicate_rate = 0.1, .seed = 7};
  LossyTransport a = Make(options), b = Make(options);
  for (int i = 0; i < 200; ++i) {
    const Heard of_a = Run(a), of_b = Run(b);
    ASSERT_EQ(of_a.end.code(), of_b.end.code()) << "call " << i;
    ASSERT_EQ(of_a.parts.size(), of_b.parts.size()) << "call " << i;
  }
  EXPECT_EQ(a.faults().total(), b.faults().total());
  EXPECT_GT(a.faults().dropped, 5u);
  EXPECT_GT(a.faults().late, 5u);
  EXPECT_GT(a.faults().duplicated, 5u);
  EXPECT_EQ(a.faults().stale + a.faults().replayed, 0u);
}

}  // namespace
}  // namespace quire::bench
