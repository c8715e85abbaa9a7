// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/metadata/data_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "kvserver/store/metadata/checked_value.h"
#include "kvserver/store/metadata/database.h"
#include "kvserver/store/metadata/format_proof.h"
#include "tests/kit/temp_dir.h"

namespace quire::kvserver::testing {
namespace {

using quire::testing::TempDir;
using ::testing::HasSubstr;

void WriteFile(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

/// The error of opening `path`, which must name it.
Status OpenError(const std::string& path) {
  const auto opened = DataDirectory::Open(path);
  EXPECT_FALSE(opened.ok());
  EXPECT_NE(Message(opened.status()).find(path), std::string_view::npos) << opened.status();
  return opened.status();
}

TEST(DataDirectoryTest, CreatesWhatIsMissingAndOpensItAgain) {
  TempDir dir;
  const std::string path = dir / "a/b";
  ASSERT_TRUE(DataDirectory::Open(path).ok());
  ASSERT_TRUE(DataDirectory::Open(path).ok());
  std::stringstream format;
  format << std::ifstream(path + "/FORMAT").rdbuf();
  EXPECT_EQ(format.str(), "quire-data-format 3\n");
}

TEST(DataDirectoryTest, IsLockedWhileItIsOpen) {
  TempDir dir;
  auto first = DataDirectory::Open(dir.path());
  ASSERT_TRUE(first.ok());
  const Status second = OpenError(dir.path());
  EXPECT_EQ(second.code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(Message(second).find("in use"), std::string_view::npos);
  first->reset();
  EXPECT_TRUE(DataDirectory::Open(dir.path()).ok());
}

TEST(DataDirectoryTest, AFileIsNotADirectory) {
  TempDir dir;
  WriteFile(dir / "file", "x");
  EXPECT_EQ(OpenError(dir / "file").code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(OpenError(dir / "file/below").code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(DataDirectory::Open("").status().code(), StatusCode::kInvalidArgument);
}

TEST(DataDirectoryTest, ANewerFormatIsRefusedWithARemedy) {
  TempDir dir;
  WriteFile(dir / "FORMAT", "quire-data-format 4\n");
  const Status status = OpenError(dir.path());
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(Message(status).find("upgrade"), std::string_view::npos);
}

TEST(DataDirectoryTest, AFormatThatIsNotReadAnyMoreIsRefusedWithARemedy) {
  TempDir dir;
  WriteFile(dir / "FORMAT", "quire-data-format 1\n");
  const Status status = OpenError(dir.path());
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(Message(status)), HasSubstr("put the documents again"));
}

TEST(DataDirectoryTest, ADamagedFormatFileIsDataLoss) {
  TempDir dir;
  for (const char* text :
       {"", "quire", "quire-data-format \n", "quire-data-format 1", "quire-data-format -1\n",
        "quire-data-format 1x\n", "quire-data-format 99999999999999\n"}) {
    WriteFile(dir / "FORMAT", text);
    EXPECT_EQ(OpenError(dir.path()).code(), StatusCode::kDataLoss) << text;
  }
}

/// Text of FORMAT after the directory was opened.
std::string FormatAfterOpening(const std::string& path) {
  const auto opened = DataDirectory::Open(path);
  EXPECT_TRUE(opened.ok()) << opened.status();
  std::stringstream format;
  format << std::ifstream(path + "/FORMAT").rdbuf();
  return format.str();
}

// Promise 3: a directory opens even if a power failure removed its FORMAT, or kept it from being
// written.
TEST(DataDirectoryTest, Promise3AFormatThatTheDatabaseProvesIsWrittenAnew) {
  const TempDir dir;
  ASSERT_TRUE(DataDirectory::Open(dir.path()).ok());
  ASSERT_TRUE(NoteFormat(**Database::Open({.path = dir / "metadata"})).ok());
  std::filesystem::remove(dir / "FORMAT");
  EXPECT_EQ(FormatAfterOpening(dir.path()), "quire-data-format 3\n");
  for (const char* text : {"", "quire-data-fo", "quire-data-format 3\nquire-data-format 3\n"}) {
    WriteFile(dir / "FORMAT", text);
    EXPECT_EQ(FormatAfterOpening(dir.path()), "quire-data-format 3\n") << text;
  }
}

TEST(DataDirectoryTest, AFormatIsWrittenAnewForADatabaseOfBeforeItNotedOne) {
  const TempDir dir;
  { ASSERT_TRUE(Database::Open({.path = dir / "metadata"}).ok()); }
  EXPECT_EQ(FormatAfterOpening(dir.path()), "quire-data-format 2\n");
}

TEST(DataDirectoryTest, AnOlderFormatIsReadAndRaisedBeforeItIsWritten) {
  const TempDir dir;
  WriteFile(dir / "FORMAT", "quire-data-format 2\n");
  EXPECT_EQ(FormatAfterOpening(dir.path()), "quire-data-format 2\n");
  ASSERT_TRUE(DataDirectory::Open(dir.path()).value()->Upgrade().ok());
  EXPECT_EQ(FormatAfterOpening(dir.path()), "quire-data-format 3\n");
}

TEST(DataDirectoryTest, AFormatIsWrittenAnewWhereNoDatabaseCameToBe) {
  const TempDir dir;
  std::filesystem::create_directory(dir / "metadata");
  WriteFile(dir / "metadata/MANIFEST-000001", "");
  EXPECT_EQ(FormatAfterOpening(dir.path()), "quire-data-format 3\n");
}

TEST(DataDirectoryTest, AMissingFormatNextToADatabaseThatProvesNothingIsRefused) {
  const TempDir dir;
  std::filesystem::create_directory(dir / "metadata");
  WriteFile(dir / "metadata/CURRENT", "MANIFEST-000009\n");
  EXPECT_EQ(OpenError(dir.path()).code(), StatusCode::kDataLoss);
  const TempDir other;
  {
    const auto database = Database::Open({.path = other / "metadata"}).value();
    Database::Batch batch = database->NewBatch();
    batch.Put(Table::kSegments, "a key", {"of another program"});
    ASSERT_TRUE(database->Commit(batch, /*sync=*/true).ok());
  }
  EXPECT_EQ(OpenError(other.path()).code(), StatusCode::kDataLoss);
  EXPECT_FALSE(std::filesystem::exists(other / "FORMAT"));
}

TEST(DataDirectoryTest, AMissingFormatNextToADatabaseOfAnotherVersionIsRefused) {
  const TempDir dir;
  {
    const auto database = Database::Open({.path = dir / "metadata"}).value();
    ASSERT_TRUE(NoteFormat(*database).ok());
    const uint32_t crc32c = Crc32c(AsBytes("4"));
    Database::Batch batch = database->NewBatch();
    batch.Put(Table::kMetadata, "quire-data-format", {"4", AsText(EncodeTrailer(crc32c))});
    ASSERT_TRUE(database->Commit(batch, /*sync=*/true).ok());
  }
  EXPECT_EQ(OpenError(dir.path()).code(), StatusCode::kFailedPrecondition);
}

TEST(DataDirectoryTest, APlaceThatCannotBeWrittenIsPermissionDenied) {
  // No user, not even root, can create files there.
  EXPECT_EQ(OpenError("/sys").code(), StatusCode::kPermissionDenied);
}

/// Drops root's right to write everywhere, while it lives.
class AsNobody {
 public:
  AsNobody() : was_(geteuid()) {
    if (was_ == 0) {
      EXPECT_EQ(seteuid(65534), 0);
    }
  }
  ~AsNobody() { EXPECT_EQ(seteuid(was_), 0); }

 private:
  const uid_t was_;
};

TEST(DataDirectoryTest, AReadOnlyDirectoryIsRefusedNamingItAndTheRemedy) {
  TempDir dir;
  ASSERT_EQ(chmod(dir.path().c_str(), 0555), 0);
  {
    const AsNobody nobody;
    const Status status = OpenError(dir.path());
    EXPECT_EQ(status.code(), StatusCode::kPermissionDenied);
    EXPECT_THAT(std::string(Message(status)), HasSubstr(dir.path()));
    EXPECT_THAT(std::string(Message(status)), HasSubstr("give the server write access"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
  ASSERT_EQ(chmod(dir.path().c_str(), 0700), 0);
}

}  // namespace
}  // namespace quire::kvserver::testing
