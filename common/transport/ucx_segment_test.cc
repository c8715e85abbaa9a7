// SPDX-License-Identifier: Apache-2.0
//
// The segments are made here as UCX makes them.
#include "common/transport/ucx_segment.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "common/base/unique_fd.h"

namespace quire {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kBytes = 4 * kPageBytes;
constexpr uint64_t kAddress = 0x7f00'0000'0000;  // Of the segment, at the peer.
constexpr uint64_t kOfProcess = uint64_t{1} << 63;
constexpr uint64_t kOfShm = uint64_t{1} << 62;

template <typename T>
std::string BytesOf(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
}

std::string PosixPart(uint64_t id, uint64_t bytes = kBytes) {
  return BytesOf(id) + BytesOf(kAddress) + BytesOf(bytes);
}
/// Names a descriptor of this process.
std::string PosixPartOf(int fd, uint64_t bytes = kBytes) {
  return PosixPart(kOfProcess | static_cast<uint64_t>(fd) << 30 | static_cast<uint64_t>(getpid()),
                   bytes);
}
std::string SysvPart(int32_t id) { return BytesOf(id) + BytesOf(kAddress); }

std::string Refusal(const Status& status) {
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

/// A file of shared memory with this name. It is gone with its descriptor.
UniqueFd MakeFile(const std::string& name, uint64_t bytes = kBytes) {
  UniqueFd fd(shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600));
  EXPECT_TRUE(fd.valid());
  EXPECT_EQ(shm_unlink(name.c_str()), 0);
  EXPECT_EQ(ftruncate(fd.get(), static_cast<off_t>(bytes)), 0);
  return fd;
}
std::string UcxName() { return "/ucx_shm_posix_quire" + std::to_string(getpid()); }

/// A System V segment, attached here.
struct Attached {
  Attached() : id(shmget(IPC_PRIVATE, kBytes, IPC_CREAT | 0600)) {
    if (id >= 0) place = shmat(id, nullptr, 0);
  }
  ~Attached() {
    Remove();
    shmdt(place);
  }
  void Remove() { shmctl(id, IPC_RMID, nullptr); }

  const int id;
  void* place = nullptr;
};

TEST(UcxSegmentTest, MemoryWithinAFileIsWhereThePeerHasIt) {
  const UniqueFd fd = MakeFile(UcxName());
  // What the peer says of the segment's length is not believed.
  auto segment = UcxSegment::MapPosix(PosixPartOf(fd.get(), UINT64_MAX),
                                      {kAddress + kPageBytes, 2 * kPageBytes});
  ASSERT_TRUE(segment.ok()) << segment.status();
  ASSERT_EQ((*segment)->memory().size(), 2 * kPageBytes);
  (*segment)->memory().front() = std::byte{7};
  (*segment)->memory().back() = std::byte{8};
  char first = 0, last = 0;
  ASSERT_EQ(pread(fd.get(), &first, 1, kPageBytes), 1);
  ASSERT_EQ(pread(fd.get(), &last, 1, 3 * kPageBytes - 1), 1);
  EXPECT_EQ(first, 7);
  EXPECT_EQ(last, 8);
}

TEST(UcxSegmentTest, AFileMayBeNamedByItsNumber) {
  const uint64_t number = 0x7fff'0000'0000 + static_cast<uint64_t>(getpid());
  std::array<char, 64> name = {};
  std::snprintf(name.data(), name.size(), "/ucx_shm_posix_%llx",
                static_cast<unsigned long long>(number));
  const UniqueFd fd(shm_open(name.data(), O_CREAT | O_EXCL | O_RDWR, 0600));
  ASSERT_TRUE(fd.valid());
  ASSERT_EQ(ftruncate(fd.get(), kBytes), 0);
  const auto segment = UcxSegment::MapPosix(PosixPart(kOfShm | number), {kAddress, kBytes});
  shm_unlink(name.data());
  EXPECT_TRUE(segment.ok()) << segment.status();
  EXPECT_THAT(
      Refusal(UcxSegment::MapPosix(PosixPart(kOfShm | number), {kAddress, kBytes}).status()),
      HasSubstr("cannot open"));
}

TEST(UcxSegmentTest, WhatIsNotInsideTheFileIsRefused) {
  // Of the last page a byte is there, so the page is.
  const UniqueFd fd = MakeFile(UcxName(), 3 * kPageBytes + 1);
  const std::string part = PosixPartOf(fd.get());
  EXPECT_TRUE(UcxSegment::MapPosix(part, {kAddress, 4 * kPageBytes}).ok());
  const UcxPeerMemory outside[] = {{kAddress, 4 * kPageBytes + 1},
                                   {kAddress + kPageBytes, 4 * kPageBytes},
                                   {kAddress - 1, kPageBytes},
                                   {kAddress + 4 * kPageBytes, 1},
                                   {kAddress + kPageBytes, UINT64_MAX},
                                   {0, UINT64_MAX},
                                   {UINT64_MAX, UINT64_MAX}};
  for (const UcxPeerMemory& memory : outside) {
    SCOPED_TRACE(std::to_string(memory.address) + " " + std::to_string(memory.bytes));
    EXPECT_THAT(Refusal(UcxSegment::MapPosix(part, memory).status()), HasSubstr("its memory has"));
    EXPECT_THAT(Refusal(PinPosixPart(part, memory).status()), HasSubstr("its memory has"));
  }
  EXPECT_THAT(Refusal(UcxSegment::MapPosix(part, {kAddress, 0}).status()),
              HasSubstr("names no memory"));
  // It was longer when its key was made.
  ASSERT_EQ(ftruncate(fd.get(), kPageBytes), 0);
  EXPECT_THAT(Refusal(UcxSegment::MapPosix(part, {kAddress, 2 * kPageBytes}).status()),
              HasSubstr("its memory has 4096"));
}

TEST(UcxSegmentTest, OnlyFilesOfUcxsInSharedMemoryAreMapped) {
  const UniqueFd other = MakeFile("/quire_segment_test" + std::to_string(getpid()));
  const UniqueFd memory_file(memfd_create("ucx_shm_posix_1", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(memory_file.get(), kBytes), 0);
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd reader(ends[0]), writer(ends[1]);
  const UniqueFd device(open("/dev/zero", O_RDWR | O_CLOEXEC));
  for (const UniqueFd* const fd : {&other, &memory_file, &reader, &device}) {
    ASSERT_TRUE(fd->valid());
    EXPECT_THAT(
        Refusal(UcxSegment::MapPosix(PosixPartOf(fd->get()), {kAddress, kPageBytes}).status()),
        HasSubstr("none that UCX has made"));
  }
  EXPECT_THAT(Refusal(UcxSegment::MapPosix(PosixPartOf(1 << 29), {kAddress, kPageBytes}).status()),
              HasSubstr("cannot open"));
  EXPECT_THAT(Refusal(UcxSegment::MapPosix(PosixPart(7) + "/tmp", {kAddress, kPageBytes}).status()),
              HasSubstr("UCX_POSIX_DIR"));
  EXPECT_THAT(Refusal(UcxSegment::MapPosix("short", {kAddress, kPageBytes}).status()),
              HasSubstr("in 5 bytes"));
}

TEST(UcxSegmentTest, APinnedPartOpensWhenThePeersDescriptorIsClosed) {
  UniqueFd fd = MakeFile(UcxName());
  const auto pinned =
      PinPosixPart(PosixPartOf(fd.get(), UINT64_MAX), {kAddress + kPageBytes, kPageBytes});
  ASSERT_TRUE(pinned.ok()) << pinned.status();
  fd.Reset();
  EXPECT_EQ(pinned->bytes, PosixPartOf(pinned->fd.get(), 2 * kPageBytes));
  EXPECT_TRUE(UcxSegment::MapPosix(pinned->bytes, {kAddress, kBytes}).ok());
}

TEST(UcxSegmentTest, MemoryWithinASystemVSegment) {
  Attached segment;
  if (segment.id < 0) GTEST_SKIP() << "no System V shared memory here";
  ASSERT_NE(segment.place, reinterpret_cast<void*>(-1));
  const std::string part = SysvPart(segment.id);
  EXPECT_THAT(Refusal(UcxSegment::MapSysv(part, {kAddress, kPageBytes}).status()),
              HasSubstr("none that UCX has made"))
      << "it stays when nobody uses it";
  segment.Remove();
  const auto mapped = UcxSegment::MapSysv(part, {kAddress + kPageBytes, 3 * kPageBytes});
  ASSERT_TRUE(mapped.ok()) << mapped.status();
  ASSERT_EQ((*mapped)->memory().size(), 3 * kPageBytes);
  (*mapped)->memory().front() = std::byte{9};
  EXPECT_EQ(static_cast<const std::byte*>(segment.place)[kPageBytes], std::byte{9});
  for (const UcxPeerMemory& memory :
       {UcxPeerMemory{kAddress, kBytes + 1}, UcxPeerMemory{kAddress - 1, 1},
        UcxPeerMemory{kAddress + kBytes, 1}, UcxPeerMemory{kAddress + 1, UINT64_MAX}}) {
    EXPECT_THAT(Refusal(UcxSegment::MapSysv(part, memory).status()), HasSubstr("its memory has"));
  }
  EXPECT_THAT(Refusal(UcxSegment::MapSysv("short", {kAddress, kPageBytes}).status()),
              HasSubstr("in 5 bytes"));
  EXPECT_THAT(Refusal(UcxSegment::MapSysv(SysvPart(-1), {kAddress, kPageBytes}).status()),
              HasSubstr("cannot attach"));
}

}  // namespace
}  // namespace quire
