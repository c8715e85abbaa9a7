// SPDX-License-Identifier: Apache-2.0
#include "transport/landing_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "common/base/checksum.h"
#include "common/base/random.h"
#include "tests/kit/guarded_memory.h"

namespace quire {
namespace {

using testing::GuardedMemory;
using Bytes = std::vector<std::byte>;

Bytes Random(size_t bytes, uint64_t seed) {
  SeededRandom random(seed);
  Bytes out(bytes);
  for (std::byte& byte : out) byte = static_cast<std::byte>(random.Next());
  return out;
}

Payload PayloadOf(const std::vector<Bytes>& slices) {
  Payload payload;
  for (const Bytes& slice : slices) payload.Append(slice);
  return payload;
}

TEST(LandingMemoryTest, MemoryWithoutAnAccessIsTheHosts) {
  Bytes memory(10);
  const LandingMemory host = memory;
  EXPECT_TRUE(host.is_host());
  EXPECT_EQ(host.type(), MemoryType::kHost);
  EXPECT_EQ(host.bytes.data(), memory.data());
  GuardedMemory guarded(10);
  const LandingMemory device = {guarded.bytes(), &guarded};
  EXPECT_FALSE(device.is_host());
  EXPECT_EQ(device.type(), MemoryType::kCuda);
  EXPECT_TRUE(LandingMemory().is_host());
}

TEST(LandingMemoryTest, SlicesGoToTheirPlacesInEitherKindWithTheSameChecksums) {
  const std::vector<Bytes> slices = {Random(5000, 1), Random(1, 2), Random(16384, 3)};
  const std::vector<uint64_t> places = {20000, 0, 100};
  Bytes host(30000, std::byte{9});
  GuardedMemory guarded(host.size());
  guarded.Fill(std::byte{9});
  const auto told = CopyToLanding(PayloadOf(slices), places, host);
  const auto behind =
      CopyToLanding(PayloadOf(slices), places, LandingMemory{guarded.bytes(), &guarded});
  ASSERT_TRUE(told.ok() && behind.ok()) << told.status() << behind.status();
  EXPECT_EQ(*behind, *told);
  for (size_t i = 0; i < slices.size(); ++i) EXPECT_EQ((*told)[i], Crc32c(slices[i]));
  EXPECT_EQ(guarded.Read(), host);
}

TEST(LandingMemoryTest, ChecksumsAreToldOfPiecesOfEverySizeWithBoundedMemory) {
  GuardedMemory guarded(size_t{9} << 20);
  const Bytes all = Random(guarded.bytes().size(), 4);
  guarded.Write(0, all);
  std::vector<std::span<const std::byte>> pieces;
  std::vector<uint32_t> expected;
  size_t at = 3;
  for (const size_t bytes : {16384, 0, 1, 3 << 20, 1 << 20, 16384, 4 << 20}) {
    pieces.emplace_back(guarded.bytes().subspan(at, bytes));
    expected.push_back(Crc32c(std::span(all).subspan(at, bytes)));
    at += bytes + 5;
  }
  const auto crc32c = ChecksumsBehind(guarded, pieces);
  ASSERT_TRUE(crc32c.ok()) << crc32c.status();
  EXPECT_EQ(*crc32c, expected);
  EXPECT_EQ(guarded.most_out(), uint64_t{1} << 20);
  EXPECT_TRUE(ChecksumsBehind(guarded, {})->empty());
}

TEST(LandingMemoryTest, WhatTheAccessSaysIsPassedOn) {
  GuardedMemory guarded(100);
  guarded.Break();
  const std::vector<uint64_t> places = {0};
  const std::span<const std::byte> piece = guarded.bytes();
  EXPECT_TRUE(IsInternal(
      CopyToLanding(PayloadOf({Random(10, 1)}), places, {guarded.bytes(), &guarded}).status()));
  EXPECT_TRUE(IsInternal(ChecksumsBehind(guarded, {&piece, 1}).status()));
}

TEST(LandingMemoryDeathTest, GuardedMemoryIsOutOfReachButThroughItsCopies) {
  GuardedMemory guarded(4096);
  EXPECT_DEATH(*const_cast<volatile std::byte*>(guarded.bytes().data()) = std::byte{1}, "");
  EXPECT_DEATH((void)*const_cast<const volatile std::byte*>(guarded.bytes().data()), "");
}

}  // namespace
}  // namespace quire
