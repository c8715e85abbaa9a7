// SPDX-License-Identifier: Apache-2.0
#include "transport/ucx/frames/buffer_pool.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace quire {
namespace {

constexpr uint64_t kMebibyte = uint64_t{1} << 20;

TEST(BufferPoolTest, ADroppedBufferIsTakenAgain) {
  const auto pool = std::make_shared<BufferPool>(4 * kMebibyte);
  auto first = BufferPool::Take(pool, kMebibyte);
  const std::byte* const memory = first.get();
  first.reset();
  EXPECT_EQ(BufferPool::Take(pool, kMebibyte).get(), memory);
}

TEST(BufferPoolTest, AMessageALittleOverItsPayloadWastesAnEighthAtMost) {
  const auto pool = std::make_shared<BufferPool>(4 * kMebibyte);
  std::vector<std::shared_ptr<std::byte[]>> taken;
  std::vector<const std::byte*> memory;
  for (int i = 0; i < 3; ++i) {
    taken.push_back(BufferPool::Take(pool, kMebibyte + 100));
    memory.push_back(taken.back().get());
  }
  for (auto& buffer : taken) buffer.reset();
  taken.clear();
  // All three fit the bound. The latest that came back is the first taken.
  for (int i = 0; i < 3; ++i) {
    taken.push_back(BufferPool::Take(pool, kMebibyte + 200));
    EXPECT_EQ(taken.back().get(), memory[2 - i]) << i;
  }
}

TEST(BufferPoolTest, ABufferOutlivesItsPool) {
  auto pool = std::make_shared<BufferPool>(kMebibyte);
  const auto buffer = BufferPool::Take(pool, 1000);
  pool.reset();
  buffer[999] = std::byte{7};
  EXPECT_EQ(buffer[999], std::byte{7});
}

}  // namespace
}  // namespace quire
