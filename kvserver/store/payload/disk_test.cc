// SPDX-License-Identifier: Apache-2.0
//
// Both disks keep the contract. The one with a power switch forgets only what POSIX allows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "kvserver/store/payload/testing/disk_conformance.h"
#include "kvserver/store/payload/testing/power_disk.h"

namespace quire::kvserver::testing {
namespace {

using quire::testing::TempDir;
using ::testing::Contains;
using ::testing::IsSubsetOf;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

DiskUnderTest MakeSystemDisk(const TempDir& dir) {
  return {.disk = {&SystemDisk(), [](Disk*) {}}, .directory = dir.path()};
}
DiskUnderTest MakePowerDisk(const TempDir&) {
  auto disk = std::make_shared<PowerDisk>();
  EXPECT_EQ(disk->MakeDirectory("/dir"), 0);
  return {.disk = disk, .directory = "/dir"};
}

INSTANTIATE_TEST_SUITE_P(System, DiskConformanceTest, ::testing::Values(MakeSystemDisk));
INSTANTIATE_TEST_SUITE_P(Power, DiskConformanceTest, ::testing::Values(MakePowerDisk));

constexpr uint64_t kSeeds = 200;
constexpr size_t kSector = PowerDisk::kSectorBytes;

/// Runs `prepare` on new disks, cuts their power, and collects the results of `look`.
template <typename Prepare, typename Look>
std::set<std::string> Outcomes(Prepare prepare, Look look) {
  std::set<std::string> found;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    PowerDisk disk;
    prepare(disk);
    disk.Restart(seed);
    found.insert(look(disk));
  }
  return found;
}

std::string TextOf(Disk& disk, const std::string& path) {
  std::string text;
  return ReadSmallFile(disk, path, 1 << 20, &text) == 0 ? text : "none";
}

/// Writes `text` at `offset` of a file, which is created when missing.
void Write(Disk& disk, const std::string& path, uint64_t offset, const std::string& text,
           bool sync) {
  const DiskFile file(disk, path, O_RDWR | O_CREAT);
  ASSERT_TRUE(file.ok());
  ASSERT_EQ(disk.Write(file.fd(), offset, std::as_bytes(std::span(text))), 0);
  ASSERT_EQ(sync ? disk.Sync(file.fd()) : 0, 0);
}

void SyncNames(Disk& disk) { ASSERT_EQ(SyncDirectory(disk, "/"), 0); }

TEST(PowerDiskTest, WhatWasSyncedStays) {
  const auto found = Outcomes(
      [](PowerDisk& disk) {
        Write(disk, "/file", 0, "synced", true);
        SyncNames(disk);
      },
      [](PowerDisk& disk) { return TextOf(disk, "/file"); });
  EXPECT_THAT(found, UnorderedElementsAre("synced"));
}

TEST(PowerDiskTest, ASyncedFileWithoutASyncedNameMayBeGone) {
  const auto found = Outcomes([](PowerDisk& disk) { Write(disk, "/file", 0, "synced", true); },
                              [](PowerDisk& disk) { return TextOf(disk, "/file"); });
  EXPECT_THAT(found, UnorderedElementsAre("synced", "none"));
}

TEST(PowerDiskTest, ASyncedNameDoesNotKeepBytes) {
  const auto found = Outcomes(
      [](PowerDisk& disk) {
        Write(disk, "/file", 0, "text", false);
        SyncNames(disk);
      },
      [](PowerDisk& disk) { return TextOf(disk, "/file"); });
  EXPECT_THAT(found, Contains("text"));
  EXPECT_THAT(found, Contains(""));
  EXPECT_THAT(found, Contains(std::string(4, '\0'))) << "the size alone";
  EXPECT_THAT(found, Not(Contains("none")));
}

TEST(PowerDiskTest, SectorsOfUnsyncedWritesAreKeptOneByOne) {
  const auto found = Outcomes(
      [](PowerDisk& disk) {
        Write(disk, "/file", 0, std::string(2 * kSector, 'a'), true);
        SyncNames(disk);
        Write(disk, "/file", 0, std::string(2 * kSector, 'b'), false);
        Write(disk, "/file", 0, std::string(2 * kSector, 'c'), false);
      },
      [](PowerDisk& disk) {
        const std::string text = TextOf(disk, "/file");
        return std::string{text[0], text[kSector - 1], text[kSector], text[2 * kSector - 1]};
      });
  EXPECT_EQ(found.size(), 9u) << "each of two sectors has one of three contents";
  for (const std::string& text : found) {
    EXPECT_EQ(text[0], text[1]) << "a sector is not torn";
    EXPECT_EQ(text[2], text[3]);
  }
}

TEST(PowerDiskTest, NamesComeAndGoInAnyOrder) {
  const auto found = Outcomes(
      [](PowerDisk& disk) {
        Write(disk, "/a", 0, "a", true);
        SyncNames(disk);
        ASSERT_EQ(disk.Remove("/a"), 0);
        Write(disk, "/b", 0, "b", true);
      },
      [](PowerDisk& disk) {
        std::vector<std::string> names;
        EXPECT_EQ(disk.List("/", &names), 0);
        std::string all;
        for (const std::string& name : names) all += name;
        return all;
      });
  EXPECT_THAT(found, UnorderedElementsAre("", "a", "b", "ab"));
}

TEST(PowerDiskTest, UnderANewNameThereIsOneFileOrTheOther) {
  const auto found = Outcomes(
      [](PowerDisk& disk) {
        Write(disk, "/file", 0, "before", true);
        Write(disk, "/file.tmp", 0, "after", true);
        SyncNames(disk);
        ASSERT_EQ(disk.Rename("/file.tmp", "/file"), 0);
      },
      [](PowerDisk& disk) { return TextOf(disk, "/file") + " " + TextOf(disk, "/file.tmp"); });
  EXPECT_THAT(found, UnorderedElementsAre("before after", "after none", "after after"));
}

TEST(PowerDiskTest, ADurableFileIsWholeOrAsItWas) {
  uint64_t cut = 0;
  const auto found = Outcomes(
      [&cut](PowerDisk& disk) {
        ASSERT_EQ(WriteDurableFile(disk, "/file", "before"), 0);
        disk.CutAfter(cut++ % 6);
        const int error = WriteDurableFile(disk, "/file", "after!");
        EXPECT_EQ(error != 0, disk.is_off());
      },
      [](PowerDisk& disk) { return TextOf(disk, "/file"); });
  EXPECT_THAT(found, IsSubsetOf({"before", "after!"}));
  EXPECT_EQ(found.size(), 2u);
}

TEST(PowerDiskTest, ADurableDirectoryKeepsWhatIsSyncedBelowIt) {
  const auto made = [](bool durable) {
    return Outcomes(
        [durable](PowerDisk& disk) {
          if (durable) {
            ASSERT_EQ(MakeDurableDirectory(disk, "/a/b"), 0);
          } else {
            ASSERT_EQ(disk.MakeDirectory("/a"), 0);
            ASSERT_EQ(disk.MakeDirectory("/a/b"), 0);
          }
          ASSERT_EQ(WriteDurableFile(disk, "/a/b/file", "text"), 0);
        },
        [](PowerDisk& disk) { return TextOf(disk, "/a/b/file"); });
  };
  EXPECT_THAT(made(true), UnorderedElementsAre("text"));
  EXPECT_THAT(made(false), UnorderedElementsAre("text", "none"));
}

TEST(PowerDiskTest, WithoutPowerEverythingFails) {
  PowerDisk disk;
  const DiskFile file(disk, "/file", O_RDWR | O_CREAT);
  disk.CutAfter(1);
  const std::string text = "x";
  EXPECT_EQ(disk.Write(file.fd(), 0, std::as_bytes(std::span(text))), 0);
  EXPECT_FALSE(disk.is_off());
  EXPECT_EQ(disk.Sync(file.fd()), EIO);
  EXPECT_TRUE(disk.is_off());
  DiskEntry entry;
  std::vector<std::string> names;
  EXPECT_EQ(disk.Examine("/file", &entry), EIO);
  EXPECT_EQ(disk.List("/", &names), EIO);
  EXPECT_EQ(disk.Open("/file", O_RDONLY), -EIO);
  disk.Restart(1);
  EXPECT_EQ(disk.Sync(file.fd()), EBADF) << "a descriptor of before";
  EXPECT_EQ(disk.List("/", &names), 0);
}

TEST(PowerDiskTest, TheSameSeedForgetsTheSame) {
  const auto left = [](uint64_t seed) {
    PowerDisk disk;
    for (int i = 0; i < 8; ++i) Write(disk, "/" + std::to_string(i), 0, "text", i % 2 == 0);
    disk.Restart(seed);
    std::string all;
    for (int i = 0; i < 8; ++i) all += TextOf(disk, "/" + std::to_string(i)) + "|";
    return all;
  };
  for (uint64_t seed = 0; seed < 20; ++seed) EXPECT_EQ(left(seed), left(seed));
  EXPECT_NE(left(1), left(2));
}

}  // namespace
}  // namespace quire::kvserver::testing
