// SPDX-License-Identifier: Apache-2.0
//
// Conformance suite of Disk, for behaviour with the power on. Instantiate it with a disk's factory.
#ifndef QUIRE_KVSERVER_STORE_PAYLOAD_TESTING_DISK_CONFORMANCE_H_
#define QUIRE_KVSERVER_STORE_PAYLOAD_TESTING_DISK_CONFORMANCE_H_

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include "kvserver/store/payload/disk.h"
#include "tests/kit/temp_dir.h"

namespace quire::kvserver::testing {

/// A disk with an empty directory.
struct DiskUnderTest {
  std::shared_ptr<Disk> disk;
  std::string directory;
};
using MakeDisk = DiskUnderTest (*)(const quire::testing::TempDir& dir);

class DiskConformanceTest : public ::testing::TestWithParam<MakeDisk> {
 protected:
  std::string Path(const std::string& name) const { return under_test_.directory + "/" + name; }
  DiskFile Make(const std::string& name) { return {disk_, Path(name), O_RDWR | O_CREAT}; }
  void Fill(const std::string& name, const std::string& text) {
    const DiskFile file(disk_, Path(name), O_RDWR | O_CREAT | O_TRUNC);
    ASSERT_TRUE(file.ok()) << file.error();
    ASSERT_EQ(disk_.Write(file.fd(), 0, std::as_bytes(std::span(text))), 0);
  }
  std::string Contents(const std::string& name) {
    std::string text;
    EXPECT_EQ(ReadSmallFile(disk_, Path(name), 1 << 20, &text), 0);
    return text;
  }
  std::vector<std::string> Names(const std::string& directory) {
    std::vector<std::string> names;
    EXPECT_EQ(disk_.List(directory, &names), 0);
    return names;
  }

  const quire::testing::TempDir dir_;
  const DiskUnderTest under_test_ = GetParam()(dir_);
  Disk& disk_ = *under_test_.disk;
};

TEST_P(DiskConformanceTest, ReadsWhatWasWrittenAndNotPastTheEnd) {
  Fill("file", "0123456789");
  const DiskFile file(disk_, Path("file"), O_RDONLY);
  std::string text(20, '.');
  EXPECT_EQ(disk_.Read(file.fd(), 4, std::as_writable_bytes(std::span(text))), 6);
  EXPECT_EQ(text.substr(0, 7), "456789.");
  EXPECT_EQ(disk_.Read(file.fd(), 10, std::as_writable_bytes(std::span(text))), 0);
  EXPECT_EQ(disk_.Read(file.fd(), 1000, std::as_writable_bytes(std::span(text))), 0);
}

TEST_P(DiskConformanceTest, AWritePastTheEndLeavesZerosBefore) {
  const DiskFile file = Make("file");
  const std::string text = "x";
  ASSERT_EQ(disk_.Write(file.fd(), 3, std::as_bytes(std::span(text))), 0);
  EXPECT_EQ(Contents("file"), std::string("\0\0\0x", 4));
}

TEST_P(DiskConformanceTest, AllocateMakesAFileLongerAndNeverShorter) {
  Fill("file", "0123456789");
  const DiskFile file(disk_, Path("file"), O_RDWR);
  DiskEntry entry;
  EXPECT_EQ(disk_.Allocate(file.fd(), 5), 0);
  EXPECT_EQ(Contents("file"), "0123456789");
  EXPECT_EQ(disk_.Allocate(file.fd(), 4096), 0);
  ASSERT_EQ(disk_.Examine(file.fd(), &entry), 0);
  EXPECT_EQ(entry.size_bytes, 4096u);
  EXPECT_EQ(disk_.Truncate(file.fd(), 3), 0);
  EXPECT_EQ(Contents("file"), "012");
  EXPECT_EQ(disk_.Allocate(file.fd(), uint64_t{1} << 60) == 0, false);
}

TEST_P(DiskConformanceTest, OpenSaysWhatIsMissingAndWhatIsNot) {
  EXPECT_EQ(disk_.Open(Path("none"), O_RDONLY), -ENOENT);
  EXPECT_EQ(disk_.Open(Path("none/below"), O_RDWR | O_CREAT), -ENOENT);
  Fill("file", "x");
  EXPECT_EQ(disk_.Open(Path("file/below"), O_RDWR | O_CREAT), -ENOTDIR);
  EXPECT_EQ(disk_.Open(Path("file"), O_RDONLY | O_DIRECTORY), -ENOTDIR);
  EXPECT_EQ(disk_.Open(Path("file"), O_RDWR | O_CREAT | O_EXCL), -EEXIST);
  EXPECT_EQ(disk_.Open(under_test_.directory, O_RDWR), -EISDIR);
  { const DiskFile truncated(disk_, Path("file"), O_RDWR | O_TRUNC); }
  EXPECT_EQ(Contents("file"), "");
}

TEST_P(DiskConformanceTest, DirectoriesAreMadeListedAndRemovedWhenEmpty) {
  EXPECT_EQ(disk_.MakeDirectory(Path("a")), 0);
  EXPECT_EQ(disk_.MakeDirectory(Path("a")), EEXIST);
  EXPECT_EQ(disk_.MakeDirectory(Path("b/c")), ENOENT);
  Fill("a/file", "x");
  EXPECT_THAT(Names(Path("a")), ::testing::ElementsAre("file"));
  EXPECT_EQ(disk_.Remove(Path("a")), ENOTEMPTY);
  EXPECT_EQ(disk_.Remove(Path("a/file")), 0);
  EXPECT_EQ(disk_.Remove(Path("a")), 0);
  EXPECT_EQ(disk_.Remove(Path("a")), ENOENT);
  std::vector<std::string> names;
  EXPECT_EQ(disk_.List(Path("a"), &names), ENOENT);
}

TEST_P(DiskConformanceTest, ARenameReplacesWhatHasTheName) {
  Fill("new", "new");
  Fill("old", "old");
  EXPECT_EQ(disk_.Rename(Path("new"), Path("old")), 0);
  EXPECT_EQ(Contents("old"), "new");
  EXPECT_THAT(Names(under_test_.directory), ::testing::ElementsAre("old"));
  EXPECT_EQ(disk_.Rename(Path("new"), Path("old")), ENOENT);
}

TEST_P(DiskConformanceTest, ARemovedFileCanStillBeReadAndIsNotTheOneInItsPlace) {
  Fill("file", "text");
  const DiskFile file(disk_, Path("file"), O_RDONLY);
  DiskEntry open, entry;
  ASSERT_EQ(disk_.Examine(file.fd(), &open), 0);
  ASSERT_EQ(disk_.Examine(Path("file"), &entry), 0);
  EXPECT_EQ(entry.file, open.file);
  ASSERT_EQ(disk_.Remove(Path("file")), 0);
  Fill("file", "next");
  ASSERT_EQ(disk_.Examine(Path("file"), &entry), 0);
  EXPECT_NE(entry.file, open.file);
  ASSERT_EQ(disk_.Remove(Path("file")), 0);
  std::string text(4, '.');
  EXPECT_EQ(disk_.Read(file.fd(), 0, std::as_writable_bytes(std::span(text))), 4);
  EXPECT_EQ(text, "text");
  EXPECT_EQ(disk_.Examine(Path("file"), &entry), ENOENT);
}

TEST_P(DiskConformanceTest, ALockIsHeldByOneUntilItCloses) {
  const DiskFile second = Make("lock");
  {
    const DiskFile first = Make("lock");
    EXPECT_EQ(disk_.Lock(first.fd()), 0);
    EXPECT_EQ(disk_.Lock(second.fd()), EWOULDBLOCK);
  }
  EXPECT_EQ(disk_.Lock(second.fd()), 0);
}

TEST_P(DiskConformanceTest, FilesAndDirectoriesCanBeSynced) {
  const DiskFile file = Make("file");
  EXPECT_EQ(disk_.Sync(file.fd()), 0);
  EXPECT_EQ(SyncDirectory(disk_, under_test_.directory), 0);
  EXPECT_EQ(SyncDirectory(disk_, Path("none")), ENOENT);
  EXPECT_EQ(SyncDirectory(disk_, Path("file")), ENOTDIR);
  uint64_t free_bytes = 0;
  EXPECT_EQ(disk_.FreeBytes(under_test_.directory, &free_bytes), 0);
  EXPECT_GT(free_bytes, 0u);
}

TEST_P(DiskConformanceTest, DurableDirectoriesAndFilesAreMadeWithWhatIsAboveThem) {
  EXPECT_EQ(MakeDurableDirectory(disk_, Path("a/b/c/")), 0);
  EXPECT_EQ(MakeDurableDirectory(disk_, Path("a/b/c")), 0);
  EXPECT_EQ(WriteDurableFile(disk_, Path("a/b/c/file"), "one"), 0);
  EXPECT_EQ(WriteDurableFile(disk_, Path("a/b/c/file"), "two"), 0);
  EXPECT_EQ(Contents("a/b/c/file"), "two");
  EXPECT_THAT(Names(Path("a/b/c")), ::testing::ElementsAre("file"));
  EXPECT_EQ(MakeDurableDirectory(disk_, Path("a/b/c/file")), EEXIST);
  EXPECT_EQ(MakeDurableDirectory(disk_, Path("a/b/c/file/d")), ENOTDIR);
  std::string text;
  EXPECT_EQ(ReadSmallFile(disk_, Path("a/b/c/file"), 2, &text), EFBIG);
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DiskConformanceTest);

}  // namespace quire::kvserver::testing

#endif  // QUIRE_KVSERVER_STORE_PAYLOAD_TESTING_DISK_CONFORMANCE_H_
