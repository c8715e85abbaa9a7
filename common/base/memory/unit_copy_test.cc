// SPDX-License-Identifier: Apache-2.0
#include "common/base/memory/unit_copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "common/base/memory/checksum.h"
#include "common/base/memory/folded_copy.h"
#include "common/base/random.h"

namespace quire {
namespace {

constexpr size_t kAlignment = 64;

/// Copies `bytes` random bytes to a place `offset` bytes past a cache line, between guards.
template <typename Copy>
void CopyAndCompare(size_t bytes, size_t offset, bool with_next, Copy copy) {
  SCOPED_TRACE(::testing::Message() << bytes << " bytes at " << offset << " next " << with_next);
  SeededRandom random(bytes * 131 + offset);
  std::vector<std::byte> from(bytes), next(bytes);
  for (std::byte& b : from) b = static_cast<std::byte>(random.Next());
  constexpr std::byte kGuard{0xa5};
  std::vector<std::byte> room(bytes + 3 * kAlignment, kGuard);
  auto* to = room.data();
  to += (kAlignment - reinterpret_cast<uintptr_t>(to) % kAlignment) % kAlignment + offset;
  copy(from, to, with_next ? next.data() : nullptr);
  EXPECT_TRUE(std::equal(from.begin(), from.end(), to));
  EXPECT_TRUE(std::all_of(room.data(), to, [&](std::byte b) { return b == kGuard; }));
  EXPECT_TRUE(
      std::all_of(to + bytes, room.data() + room.size(), [&](std::byte b) { return b == kGuard; }));
}

void CopyInAllWays() {
  for (const size_t bytes : {0u, 1u, 63u, 256u, 511u, 1024u, 1025u, 5000u, 16384u, 131072u}) {
    for (const size_t offset : {0u, 1u, 32u}) {
      for (const bool with_next : {false, true}) {
        CopyAndCompare(bytes, offset, with_next, [](const auto& from, auto* to, auto* next) {
          EXPECT_EQ(CopyWithCrc32c(from, to, next), Crc32c(from));
        });
        CopyAndCompare(bytes, offset, with_next, [](const auto& from, auto* to, auto* next) {
          CopyAroundCache(from, to, next);
        });
        CopyAndCompare(bytes, offset, with_next, [](const auto& from, auto* to, auto* next) {
          CopyFetchingAhead(from, to, next);
        });
      }
    }
  }
}

TEST(UnitCopyTest, CopiesAndTellsTheChecksum) { CopyInAllWays(); }

TEST(UnitCopyTest, CopiesAlikeOnProcessorsThatDoNotFold) {
  if (!HasFoldedCopy())
    GTEST_SKIP() << "this processor is one, and the test above was of its copies";
  HideFoldedCopyForTesting(true);
  CopyInAllWays();
  HideFoldedCopyForTesting(false);
}

}  // namespace
}  // namespace quire
