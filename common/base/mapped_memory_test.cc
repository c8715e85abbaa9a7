// SPDX-License-Identifier: Apache-2.0
#include "common/base/mapped_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <memory>

namespace quire {
namespace {

constexpr size_t kPages = 4;
constexpr size_t kPageBytes = 4096;

struct Unmapper {
  void operator()(std::byte* memory) const { munmap(memory, kPages * kPageBytes); }
};
using Mapping = std::unique_ptr<std::byte, Unmapper>;

Mapping Map(int rights, int flags) {
  void* const memory = mmap(nullptr, kPages * kPageBytes, rights, flags | MAP_ANONYMOUS, -1, 0);
  return Mapping(memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory));
}

TEST(MappedMemoryTest, TellsWhatIsLeftOfASharedMapping) {
  const Mapping mapping = Map(PROT_READ | PROT_WRITE, MAP_SHARED);
  ASSERT_NE(mapping, nullptr);
  EXPECT_EQ(SharedBytesMappedAt(mapping.get()), kPages * kPageBytes);
  EXPECT_EQ(SharedBytesMappedAt(mapping.get() + kPageBytes + 1), 3 * kPageBytes - 1);
}

TEST(MappedMemoryTest, NothingIsThereWhereOthersDoNotSeeItOrItCannotBeWritten) {
  const Mapping own = Map(PROT_READ | PROT_WRITE, MAP_PRIVATE);
  const Mapping read_only = Map(PROT_READ, MAP_SHARED);
  EXPECT_EQ(SharedBytesMappedAt(own.get()), 0u);
  EXPECT_EQ(SharedBytesMappedAt(read_only.get()), 0u);
  EXPECT_EQ(SharedBytesMappedAt(nullptr), 0u);
}

}  // namespace
}  // namespace quire
