// SPDX-License-Identifier: Apache-2.0
//
// A reader of shared memory can only read through its descriptor.
#include "common/base/memory/shared_memory.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <string>

namespace quire::testing {
namespace {

using ::testing::Each;

constexpr uint64_t kBytes = 64 << 10;

bool CanMapWritable(int fd) {
  void* const place = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (place == MAP_FAILED) return false;
  munmap(place, kBytes);
  return true;
}

TEST(SharedMemoryTest, AReaderSeesWhatTheOwnerWritesAndKeepsItAfterItsEnd) {
  auto memory = SharedMemory::Create("quire-test", kBytes).value();
  const auto mapping = ReadOnlyMapping::Map(memory->view().fd, kBytes).value();
  std::ranges::fill(memory->bytes(), std::byte{7});
  memory.reset();
  EXPECT_THAT(mapping->bytes(), Each(std::byte{7}));
}

TEST(SharedMemoryTest, AReadersDescriptorCannotChangeIt) {
  const auto memory = SharedMemory::Create("quire-test", kBytes).value();
  const int fd = memory->view().fd;
  const char byte = 1;
  EXPECT_FALSE(CanMapWritable(fd));
  EXPECT_LT(write(fd, &byte, 1), 0);
  EXPECT_LT(pwrite(fd, &byte, 1, 0), 0);
  EXPECT_NE(ftruncate(fd, 0), 0);
  EXPECT_NE(ftruncate(fd, 2 * kBytes), 0);
  EXPECT_NE(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), 0);
  void* const place = mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, fd, 0);
  ASSERT_NE(place, MAP_FAILED);
  EXPECT_NE(mprotect(place, kBytes, PROT_READ | PROT_WRITE), 0);
  munmap(place, kBytes);
}

// The file's owner and root may open it writable. The seals stop them.
TEST(SharedMemoryTest, OpeningTheDescriptorAgainHelpsNobody) {
  const auto memory = SharedMemory::Create("quire-test", kBytes).value();
  const int fd = memory->view().fd;
  (void)fchmod(fd, 0600);
  const UniqueFd again(open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_RDWR | O_CLOEXEC));
  if (!again.valid()) return;  // Refused even earlier.
  const char byte = 1;
  EXPECT_FALSE(CanMapWritable(again.get()));
  EXPECT_LT(write(again.get(), &byte, 1), 0);
  EXPECT_EQ(errno, EPERM);
  EXPECT_NE(ftruncate(again.get(), 0), 0);
  EXPECT_NE(fallocate(again.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), 0);
  EXPECT_NE(fcntl(again.get(), F_ADD_SEALS, F_SEAL_WRITE), 0);
  EXPECT_THAT(memory->view().bytes, Each(std::byte{0}));
}

TEST(SharedMemoryTest, AFileThatCouldShrinkUnderTheReaderIsNotMapped) {
  const UniqueFd fd(memfd_create("quire-test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(fd.get(), kBytes), 0);
  EXPECT_EQ(ReadOnlyMapping::Map(fd.get(), kBytes).status().code(), StatusCode::kInvalidArgument);
  const UniqueFd no_memory(open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(ReadOnlyMapping::Map(no_memory.get(), 1).status().code(), StatusCode::kInvalidArgument);
}

TEST(SharedMemoryTest, NoMoreIsMappedThanThereIs) {
  const auto memory = SharedMemory::Create("quire-test", kBytes).value();
  EXPECT_EQ(ReadOnlyMapping::Map(memory->view().fd, kBytes + 1).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(ReadOnlyMapping::Map(memory->view().fd, 0).status().code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace quire::testing
