// SPDX-License-Identifier: Apache-2.0
#include "transport/ucx/ucx_wire.h"

#include <gtest/gtest.h>

#include <string>

#include "transport/ucx/frames/frame_order.h"

namespace quire {
namespace {

UcxHeader SomeHeader() {
  SeededRandom random(7);
  UcxHeader header;
  header.to = MakeUcxToken(random);
  header.sequence = 3;
  header.payload_bytes = 100;
  header.index_bytes = 32;
  header.head_bytes = 5;
  header.landing = 9;
  return header;
}

TEST(UcxWireTest, AHeaderComesBackAsItWas) {
  const UcxHeader header = SomeHeader();
  const auto decoded = DecodeUcxHeader(EncodeUcxHeader(header), 137);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->to, header.to);
  EXPECT_EQ(decoded->sequence, 3);
  EXPECT_EQ(decoded->landing, 9);
  EXPECT_EQ(EncodeUcxHeader(*decoded), EncodeUcxHeader(header));
}

TEST(UcxWireTest, LengthsThatDoNotAddUpAreRefused) {
  UcxHeader header = SomeHeader();
  EXPECT_FALSE(DecodeUcxHeader(EncodeUcxHeader(header), 136).ok());
  header.payload_bytes = UINT64_MAX;
  header.index_bytes = 38;  // The sum is right modulo 2^64.
  header.head_bytes = 100;
  EXPECT_FALSE(DecodeUcxHeader(EncodeUcxHeader(header), 137).ok());
  const auto encoded = EncodeUcxHeader(SomeHeader());
  EXPECT_FALSE(DecodeUcxHeader(std::span(encoded).first(71), 137).ok());
}

TEST(UcxWireTest, APieceIsAMessageAndWhatComesAfterItIsNone) {
  UcxHeader header = SomeHeader();
  header.kind = UcxKind::kPiece;
  const auto decoded = DecodeUcxHeader(EncodeUcxHeader(header), 137);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->kind, UcxKind::kPiece);
  header.kind = static_cast<UcxKind>(static_cast<uint32_t>(UcxKind::kPiece) + 1);
  EXPECT_FALSE(DecodeUcxHeader(EncodeUcxHeader(header), 137).ok());
}

TEST(UcxWireTest, AnIndexMustCoverItsPayload) {
  std::vector<std::byte> index;
  AppendUcxPlace({0, 60}, &index);
  AppendUcxPlace({4096, 40}, &index);
  EXPECT_TRUE(DecodeUcxIndex(index, 100).ok());
  EXPECT_FALSE(DecodeUcxIndex(index, 99).ok());
  EXPECT_FALSE(DecodeUcxIndex(index, 101).ok());
  EXPECT_FALSE(DecodeUcxIndex(std::span(index).first(31), 100).ok());
}

TEST(UcxWireTest, AFrameThatHasLandedHasALandingAndNothingElseOfItsPayload) {
  UcxHeader header = SomeHeader();
  header.argument = 1000;
  EXPECT_FALSE(DecodeUcxHeader(EncodeUcxHeader(header), 137).ok());
  header.payload_bytes = 0;
  EXPECT_FALSE(DecodeUcxHeader(EncodeUcxHeader(header), 37).ok());
  header.index_bytes = 0;
  EXPECT_TRUE(DecodeUcxHeader(EncodeUcxHeader(header), 5).ok());
  EXPECT_EQ(header.WindowBytes(), 1000 + header.head_bytes + UcxHeader::kEncodedBytes);
  header.landing = 0;
  EXPECT_FALSE(DecodeUcxHeader(EncodeUcxHeader(header), 5).ok());
}

TEST(UcxWireTest, AWelcomeComesBackAsItWas) {
  const UcxWelcome welcome{.server = {}, .secret = {1}, .direct_landings = true, .window_bytes = 9};
  const auto decoded = DecodeUcxWelcome(EncodeUcxWelcome(welcome));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->secret, welcome.secret);
  EXPECT_TRUE(decoded->direct_landings);
  EXPECT_EQ(decoded->window_bytes, 9);
}

TEST(UcxWireTest, AKeyOpensOnlyWithItsSecret) {
  UcxSecret secret = {1, 2, 3};
  const std::string encoded = EncodeUcxLandingKey({1, 2, 4096, 100, "remote"}, secret);
  const auto key = DecodeUcxLandingKey(encoded, secret);
  ASSERT_TRUE(key.ok()) << key.status();
  EXPECT_EQ(key->remote_key, "remote");
  EXPECT_EQ(key->address, 4096);
  secret[31] = 1;
  EXPECT_EQ(DecodeUcxLandingKey(encoded, secret).status().code(), StatusCode::kInvalidArgument);
}

TEST(UcxWireTest, ASerialIsTakenOnce) {
  ReplayWindow window;
  EXPECT_TRUE(window.Take(2));
  EXPECT_TRUE(window.Take(1));
  EXPECT_FALSE(window.Take(1));
  EXPECT_FALSE(window.Take(2));
  EXPECT_TRUE(window.Take(100));
  EXPECT_TRUE(window.Take(37));
  EXPECT_FALSE(window.Take(36)) << "older than the window";
  EXPECT_FALSE(window.Take(100));
}

TEST(FrameOrderTest, WhatComesEarlyWaits) {
  FrameOrder<int> order(4);
  EXPECT_TRUE(order.Keep(2, 20).ok());
  EXPECT_FALSE(order.Keep(2, 21).ok()) << "twice";
  EXPECT_FALSE(order.Keep(5, 50).ok()) << "too far ahead";
  EXPECT_EQ(order.TakeNext(), std::nullopt);
  ASSERT_TRUE(order.IsNext(0));
  order.Pass();
  EXPECT_TRUE(order.Keep(1, 10).ok());
  EXPECT_EQ(order.TakeNext(), 10);
  EXPECT_EQ(order.TakeNext(), 20);
  EXPECT_FALSE(order.Keep(1, 10).ok()) << "passed";
}

}  // namespace
}  // namespace quire
