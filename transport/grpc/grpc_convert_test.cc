// SPDX-License-Identifier: Apache-2.0
#include "transport/grpc/grpc_convert.h"

#include <gtest/gtest.h>

#include <vector>

namespace quire {
namespace {

TEST(GrpcConvertTest, EveryStatusSurvivesTheRoundTrip) {
  EXPECT_TRUE(FromGrpc(ToGrpc(OkStatus())).ok());
  for (int code = 1; code <= 16; ++code) {
    const Status status(static_cast<StatusCode>(code), "what and why");
    EXPECT_EQ(FromGrpc(ToGrpc(status)), status);
  }
}

TEST(GrpcConvertTest, LongMessagesAreCutToWhatTrailersHold) {
  const Status status = InvalidArgument(std::string(100000, 'x'));
  EXPECT_EQ(ToGrpc(status).error_message().size(), 2048u);
}

TEST(GrpcConvertTest, OwnedSlicesAreReferencedUntilTheBufferGoes) {
  auto bytes = std::make_shared<std::vector<std::byte>>(100000, std::byte{3});
  std::weak_ptr<std::vector<std::byte>> watch = bytes;
  CallMessage message;
  message.payload.Append(Slice{std::span<const std::byte>(*bytes), bytes});
  const std::byte* data = bytes->data();
  auto buffer = std::make_unique<grpc::ByteBuffer>(ToByteBuffer(message));
  bytes.reset();
  message = {};
  ASSERT_FALSE(watch.expired());

  CallMessage received;
  ASSERT_TRUE(FromByteBuffer(*buffer, &received).ok());
  ASSERT_EQ(received.payload.slices().size(), 1u);
  EXPECT_EQ(received.payload.slices()[0].bytes.data(), data);
  buffer.reset();
  EXPECT_FALSE(watch.expired());
  received = {};
  EXPECT_TRUE(watch.expired());
}

TEST(GrpcConvertTest, UnownedSlicesAreCopied) {
  std::vector<std::byte> bytes(1000, std::byte{1});
  CallMessage message, received;
  message.payload.Append(Slice{std::span<const std::byte>(bytes), nullptr});
  const grpc::ByteBuffer buffer = ToByteBuffer(message);
  bytes.assign(1000, std::byte{2});
  ASSERT_TRUE(FromByteBuffer(buffer, &received).ok());
  EXPECT_EQ(received.payload.Flatten().bytes[999], std::byte{1});
}

TEST(GrpcConvertTest, DeadlinesMeetOurClock) {
  const TimePoint before = SystemClock().Now();
  const TimePoint deadline = DeadlineFromGrpc(DeadlineAfter(std::chrono::seconds(100)));
  EXPECT_NEAR(std::chrono::duration<double>(deadline - before).count(), 100.0, 5.0);
  EXPECT_EQ(DeadlineFromGrpc(gpr_inf_future(GPR_CLOCK_REALTIME)), TimePoint::max());
  EXPECT_LT(DeadlineFromGrpc(gpr_inf_past(GPR_CLOCK_MONOTONIC)), before);
}

}  // namespace
}  // namespace quire
