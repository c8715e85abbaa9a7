// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "common/base/memory/checksum.h"
#include "kvserver/store/payload/volume/location.h"
#include "kvserver/store/payload/volume/volume_file.h"
#include "kvserver/store/payload/volume/volume_header.h"
#include "kvserver/store/payload/volume/volume_set.h"
#include "tests/kit/temp_dir.h"

namespace quire::kvserver {
namespace {

using quire::testing::TempDir;

constexpr uint64_t kSize = 256 << 10;
constexpr size_t kVersionAt = 4, kVolumeAt = 10, kSizeAt = 18, kChecksumAt = 26;

std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void Overwrite(const std::string& path, const std::string& contents) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << contents;
}

/// Corrects the checksum of an altered header.
std::string Resealed(std::string block) {
  const std::string fields = block.substr(0, kChecksumAt);
  const uint32_t crc = Crc32c(std::as_bytes(std::span(fields)));
  block.replace(kChecksumAt, sizeof crc, reinterpret_cast<const char*>(&crc), sizeof crc);
  return block;
}

bool Mentions(const Status& status, const std::string& text) {
  return Message(status).find(text) != std::string::npos;
}

TEST(VolumeHeaderTest, DecodesWhatWasEncoded) {
  const VolumeHeader header{.volume = 7, .size_bytes = kSize};
  const std::string block = EncodeVolumeHeader(header);
  EXPECT_EQ(block.size(), kBlockBytes);
  EXPECT_EQ(*DecodeVolumeHeader(block), header);
}

TEST(VolumeHeaderTest, NoFlippedBitGoesUnnoticed) {
  const std::string block = EncodeVolumeHeader({.volume = 7, .size_bytes = kSize});
  for (size_t bit = 0; bit < block.size() * 8; ++bit) {
    std::string damaged = block;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    ASSERT_FALSE(DecodeVolumeHeader(damaged).ok()) << "bit " << bit;
  }
}

TEST(VolumeHeaderTest, EveryTruncationIsRefused) {
  const std::string block = EncodeVolumeHeader({.volume = 7, .size_bytes = kSize});
  for (size_t size = 0; size < block.size(); ++size) {
    const auto header = DecodeVolumeHeader(std::string_view(block).substr(0, size));
    ASSERT_EQ(header.status().code(), StatusCode::kDataLoss);
    ASSERT_TRUE(Mentions(header.status(), "cut off")) << header.status();
  }
}

TEST(VolumeHeaderTest, SaysWhatIsWrong) {
  const std::string block = EncodeVolumeHeader({.volume = 7, .size_bytes = kSize});
  std::string foreign = block, newer = block, damaged = block, impossible = block;
  foreign[0] = 'X';
  newer[kVersionAt] = 2;
  damaged[kVolumeAt] ^= 1;
  impossible[kSizeAt] = 1;
  EXPECT_TRUE(Mentions(DecodeVolumeHeader(foreign).status(), "not a volume"));
  EXPECT_TRUE(Mentions(DecodeVolumeHeader(damaged).status(), "checksum"));
  EXPECT_TRUE(Mentions(DecodeVolumeHeader(Resealed(impossible)).status(), "impossible"));
  EXPECT_EQ(DecodeVolumeHeader(Resealed(newer)).status().code(), StatusCode::kFailedPrecondition);
}

class VolumeFileTest : public ::testing::TestWithParam<DirectIo> {
 protected:
  auto Create(uint32_t number = 3) {
    return VolumeFile::Create(path_, {.volume = number, .size_bytes = kSize}, GetParam());
  }
  auto Open(uint32_t number = 3) { return VolumeFile::Open(path_, number, GetParam()); }

  const TempDir dir_;
  const std::string path_ = dir_ / "00000003.vol";
};

TEST_P(VolumeFileTest, TakesItsSpaceWhenItIsMade) {
  const auto volume = Create();
  ASSERT_TRUE(volume.ok()) << volume.status();
  EXPECT_EQ(std::filesystem::file_size(path_), kSize);
  EXPECT_EQ((*volume)->present_bytes(), kSize);
  EXPECT_EQ((*volume)->size_bytes(), kSize);
  EXPECT_EQ((*volume)->number(), 3u);
  EXPECT_FALSE(std::filesystem::exists(VolumeFile::TemporaryPath(path_)));
}

TEST_P(VolumeFileTest, IsOpenedAsItWasMade) {
  const bool direct = (*Create())->direct();
  const auto volume = Open();
  ASSERT_TRUE(volume.ok()) << volume.status();
  EXPECT_EQ((*volume)->size_bytes(), kSize);
  EXPECT_EQ((*volume)->direct(), direct);
  EXPECT_EQ((fcntl((*volume)->fd(), F_GETFL) & O_DIRECT) != 0, direct);
}

TEST_P(VolumeFileTest, WhatItSaysOfItsAlignmentHolds) {
  const auto volume = Create();
  ASSERT_TRUE(volume.ok());
  const auto [offset, memory] = (*volume)->alignment();
  alignas(kBlockBytes) std::array<std::byte, 2 * kBlockBytes> buffer;
  EXPECT_EQ(pread((*volume)->fd(), buffer.data() + memory, offset, static_cast<off_t>(offset)),
            static_cast<ssize_t>(offset));
  EXPECT_EQ(offset == 1, !(*volume)->direct());
}

TEST_P(VolumeFileTest, DamageIsNamedWithTheFile) {
  ASSERT_TRUE(Create().ok());
  const std::string good = Contents(path_);
  std::string damaged = good, newer = good;
  damaged[kVolumeAt] ^= 1;
  newer[kVersionAt] = 2;
  const std::pair<std::string, StatusCode> cases[] = {
      {"", StatusCode::kDataLoss},
      {good.substr(0, 100), StatusCode::kDataLoss},
      {std::string(kSize, 'x'), StatusCode::kDataLoss},
      {damaged, StatusCode::kDataLoss},
      {Resealed(newer), StatusCode::kFailedPrecondition}};
  for (const auto& [contents, code] : cases) {
    Overwrite(path_, contents);
    const Status status = Open().status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_TRUE(Mentions(status, path_)) << status;
  }
}

TEST_P(VolumeFileTest, ACopyUnderAnotherNumberIsRefused) {
  ASSERT_TRUE(Create(/*number=*/4).ok());
  EXPECT_EQ(Open(3).status().code(), StatusCode::kDataLoss);
}

TEST_P(VolumeFileTest, ACutFileOpensWithWhatIsLeft) {
  ASSERT_TRUE(Create().ok());
  std::filesystem::resize_file(path_, 3 * kBlockBytes + 100);
  const auto volume = Open();
  ASSERT_TRUE(volume.ok()) << volume.status();
  EXPECT_EQ((*volume)->present_bytes(), 3 * kBlockBytes);
  EXPECT_EQ((*volume)->size_bytes(), kSize);
}

TEST_P(VolumeFileTest, WhatCannotBeMadeLeavesNothing) {
  const auto no_directory =
      VolumeFile::Create(dir_ / "missing/1.vol", {.volume = 1, .size_bytes = kSize}, GetParam());
  EXPECT_EQ(no_directory.status().code(), StatusCode::kUnavailable);
  const auto too_large =
      VolumeFile::Create(path_, {.volume = 3, .size_bytes = uint64_t{1} << 60}, GetParam());
  EXPECT_EQ(too_large.status().code(), StatusCode::kResourceExhausted) << too_large.status();
  EXPECT_TRUE(std::filesystem::is_empty(dir_.path()));
}

INSTANTIATE_TEST_SUITE_P(Modes, VolumeFileTest,
                         ::testing::Values(DirectIo::kAuto, DirectIo::kNever));

class VolumeSetTest : public ::testing::Test {
 protected:
  VolumeSet::Options Options(uint64_t limit_bytes = 0) {
    return {.directory = dir_ / "payload", .volume_bytes = kSize, .limit_bytes = limit_bytes};
  }
  const TempDir dir_;
};

TEST_F(VolumeSetTest, GrowsToItsLimitAndSaysSo) {
  const auto set = VolumeSet::Open(Options(2 * kSize + kSize / 2));
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_TRUE((*set)->All().empty());
  EXPECT_EQ((*(*set)->Grow())->size_bytes(), kSize);
  EXPECT_EQ((*(*set)->Grow())->size_bytes(), kSize);
  EXPECT_EQ((*(*set)->Grow())->size_bytes(), kSize / 2) << "the last one takes what is left";
  const Status full = (*set)->Grow().status();
  EXPECT_EQ(full.code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(Mentions(full, dir_ / "payload")) << full;
  EXPECT_EQ((*set)->total_bytes(), 2 * kSize + kSize / 2);
}

TEST_F(VolumeSetTest, FindsItsVolumesAgainAndRemovesHalfMadeOnes) {
  {
    const auto set = VolumeSet::Open(Options());
    ASSERT_TRUE((*set)->Grow().ok());
    ASSERT_TRUE((*set)->Grow().ok());
  }
  Overwrite(dir_ / "payload/00000002.vol.tmp", "half made");
  Overwrite(dir_ / "payload/notes.txt", "somebody else's");
  const auto set = VolumeSet::Open(Options());
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ((*set)->All().size(), 2u);
  EXPECT_NE((*set)->Find(1), nullptr);
  EXPECT_EQ((*set)->Find(2), nullptr);
  EXPECT_FALSE(std::filesystem::exists(dir_ / "payload/00000002.vol.tmp"));
  EXPECT_TRUE(std::filesystem::exists(dir_ / "payload/notes.txt"));
}

TEST_F(VolumeSetTest, NewVolumesNeverTakeTheNumberOfALostOne) {
  {
    const auto set = VolumeSet::Open(Options());
    for (int i = 0; i < 3; ++i) ASSERT_TRUE((*set)->Grow().ok());
  }
  std::filesystem::remove(dir_ / "payload/00000001.vol");
  const auto set = VolumeSet::Open(Options());
  EXPECT_EQ((*(*set)->Grow())->number(), 3u);
  (*set)->SkipPast(10);
  (*set)->SkipPast(5);
  EXPECT_EQ((*(*set)->Grow())->number(), 11u);
}

TEST_F(VolumeSetTest, ADamagedVolumeStopsTheOpening) {
  {
    const auto set = VolumeSet::Open(Options());
    ASSERT_TRUE((*set)->Grow().ok());
  }
  Overwrite(dir_ / "payload/00000000.vol", std::string(kSize, 'x'));
  const Status status = VolumeSet::Open(Options()).status();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_TRUE(Mentions(status, "00000000.vol")) << status;
}

TEST_F(VolumeSetTest, AVolumeIsAsLargeAsTheFileSystemAllows) {
  uint64_t free_bytes = kSize + 100;
  VolumeSet::Options options = Options();
  options.volume_bytes = 4 * kSize;
  options.free_bytes = [&free_bytes] { return free_bytes; };
  const auto set = VolumeSet::Open(options);
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ((*(*set)->Grow())->size_bytes(), kSize);
  free_bytes = VolumeSet::kMinVolumeBytes - 1;
  const Status full = (*set)->Grow().status();
  EXPECT_EQ(full.code(), StatusCode::kResourceExhausted) << full;
  EXPECT_TRUE(Mentions(full, options.directory));
  EXPECT_TRUE(Mentions(full, "free space there"));
}

/// Limits the file size of this process while it lives.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(uint64_t bytes) {
    previous_ = signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    signal(SIGXFSZ, previous_);
  }

 private:
  rlimit before_{};
  void (*previous_)(int) = nullptr;
};

TEST_F(VolumeSetTest, AVolumeThatTheSystemRefusesIsMadeSmaller) {
  VolumeSet::Options options = Options();
  options.volume_bytes = 8 * kSize;
  const auto set = VolumeSet::Open(options);
  ASSERT_TRUE(set.ok()) << set.status();
  {
    const FileSizeLimit limit(3 * kSize);
    EXPECT_EQ((*(*set)->Grow())->size_bytes(), 2 * kSize);
  }
  const FileSizeLimit limit(VolumeSet::kMinVolumeBytes - 1);
  EXPECT_EQ((*set)->Grow().status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ((*set)->All().size(), 1u) << "nothing was left behind";
}

TEST_F(VolumeSetTest, AbsurdOptionsAreRefused) {
  VolumeSet::Options no_directory = Options();
  no_directory.directory.clear();
  VolumeSet::Options ragged = Options();
  ragged.volume_bytes = kSize + 1;
  VolumeSet::Options tiny = Options();
  tiny.volume_bytes = kBlockBytes;
  VolumeSet::Options huge = Options();
  huge.volume_bytes = RoundDown(UINT64_MAX, kBlockBytes);
  for (const auto& options : {no_directory, ragged, tiny, huge, Options(1)}) {
    EXPECT_EQ(VolumeSet::Open(options).status().code(), StatusCode::kInvalidArgument);
  }
  VolumeSet::Options file = Options();
  file.directory = dir_ / "file";
  Overwrite(file.directory, "not a directory");
  EXPECT_FALSE(VolumeSet::Open(file).ok());
}

}  // namespace
}  // namespace quire::kvserver
