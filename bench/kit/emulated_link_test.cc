// SPDX-License-Identifier: Apache-2.0
#include "bench/kit/emulated_link.h"

#include <gtest/gtest.h>

#include <chrono>
#include <utility>

#include "tests/kit/fake_clock.h"

namespace quire::bench {
namespace {

using std::chrono::milliseconds;

/// Answers every call at once with one part of `bytes` payload bytes.
class AtOnce final : public Transport {
 public:
  explicit AtOnce(uint64_t bytes) : bytes_(bytes) {}
  TransportCapabilities capabilities() const override { return {.name = "at once"}; }
  StatusOr<std::unique_ptr<PendingCall>> Start(std::string_view, CallMessage,
                                               const CallOptions&) override {
    return std::make_unique<Answered>(bytes_);
  }

 private:
  class Answered final : public PendingCall {
   public:
    explicit Answered(uint64_t bytes) {
      part_.emplace().payload.Append(std::vector<std::byte>(bytes));
    }
    StatusOr<std::optional<CallMessage>> Next(TimePoint) override {
      return std::exchange(part_, std::nullopt);
    }
    void Cancel() override {}

   private:
    std::optional<CallMessage> part_;
  };
  const uint64_t bytes_;
};

class EmulatedLinkTest : public ::testing::Test {
 protected:
  std::unique_ptr<PendingCall> Start(Transport& link) {
    return *link.Start("m", CallMessage{}, CallOptions{});
  }
  quire::testing::FakeClock clock_;
  const TimePoint start_ = clock_.Now();
  EmulatedLink link_{std::make_shared<AtOnce>(1000),
                     {.round_trip = milliseconds(5), .bytes_per_second = 1e6},
                     &clock_};
};

TEST_F(EmulatedLinkTest, APartComesARoundTripAndItsBytesAfterItsCall) {
  const auto call = Start(link_);
  ASSERT_TRUE((*call->Next(TimePoint::max())).has_value());
  EXPECT_EQ(clock_.Now() - start_, milliseconds(6));
  EXPECT_FALSE((*call->Next(TimePoint::max())).has_value());
  EXPECT_EQ(clock_.Now() - start_, milliseconds(6));
}

TEST_F(EmulatedLinkTest, TheLinkCarriesOnePartAfterTheOther) {
  const auto first = Start(link_), second = Start(link_);
  ASSERT_TRUE((*first->Next(TimePoint::max())).has_value());
  ASSERT_TRUE((*second->Next(TimePoint::max())).has_value());
  EXPECT_EQ(clock_.Now() - start_, milliseconds(7));
}

TEST_F(EmulatedLinkTest, WhoeverWaitsForLessIsToldSoAndMayComeAgain) {
  const auto call = Start(link_);
  const auto early = call->Next(clock_.Now() + milliseconds(2));
  EXPECT_EQ(early.status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(clock_.Now() - start_, milliseconds(2));
  clock_.Advance(milliseconds(10));  // Computing meanwhile shortens the wait.
  ASSERT_TRUE((*call->Next(clock_.Now())).has_value());
  EXPECT_EQ(clock_.Now() - start_, milliseconds(12));
}

TEST_F(EmulatedLinkTest, WithoutAShapeNothingWaits) {
  EmulatedLink link(std::make_shared<AtOnce>(1000), {}, &clock_);
  ASSERT_TRUE((*Start(link)->Next(TimePoint::max())).has_value());
  EXPECT_EQ(clock_.Now(), start_);
}

}  // namespace
}  // namespace quire::bench
