// SPDX-License-Identifier: Apache-2.0
#include "cluster/backup/backup_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "cluster/backup/backup_file.h"
#include "tests/kit/temp_dir.h"

namespace quire::cluster {
namespace {

using ::testing::HasSubstr;

const std::vector<BackupRecord> kRecords = {
    {"/quire/demo/cluster", "{}"}, {"/quire/demo/x", ""}, {"/quire-registry/demo/y", "a\nb"}};

std::string Encoded() {
  v1::RegistryBackupHeader header;
  header.set_cluster_name("demo");
  header.set_cluster_id("id-1");
  header.set_revision(42);
  BackupEncoder encoder;
  std::string bytes = encoder.Header(header);
  for (const BackupRecord& record : kRecords) bytes += encoder.Record(record.key, record.value);
  return bytes + encoder.End();
}

/// Reads a whole file.
Status Read(const std::string& bytes, std::vector<BackupRecord>* records) {
  std::istringstream in(bytes);
  BackupReader reader(&in);
  QUIRE_ASSIGN_OR_RETURN(const auto header, reader.ReadHeader());
  EXPECT_EQ(header.cluster_name(), "demo");
  for (;;) {
    QUIRE_ASSIGN_OR_RETURN(auto record, reader.Next());
    if (!record) return OkStatus();
    records->push_back(*std::move(record));
  }
}

TEST(BackupFormatTest, ReadsWhatItWrote) {
  std::vector<BackupRecord> records;
  ASSERT_TRUE(Read(Encoded(), &records).ok());
  EXPECT_EQ(records, kRecords);
}

TEST(BackupFormatTest, ACutFileIsRefusedWhereverItWasCut) {
  const std::string bytes = Encoded();
  for (size_t size = 0; size < bytes.size(); ++size) {
    std::vector<BackupRecord> records;
    EXPECT_FALSE(Read(bytes.substr(0, size), &records).ok()) << size;
  }
  std::vector<BackupRecord> records;
  EXPECT_TRUE(IsDataLoss(Read(bytes.substr(0, bytes.size() - 1), &records)));
  EXPECT_TRUE(IsDataLoss(Read(bytes + "x", &records)));
}

TEST(BackupFormatTest, AChangedFileIsRefusedWhicheverByteChanged) {
  for (size_t at = 0; at < Encoded().size(); ++at) {
    std::string bytes = Encoded();
    bytes[at] ^= 1;
    std::istringstream in(bytes);
    BackupReader reader(&in);
    Status status = reader.ReadHeader().status();
    while (status.ok()) {
      const auto record = reader.Next();
      status = record.status();
      if (status.ok() && !*record) break;
    }
    EXPECT_FALSE(status.ok()) << at;
  }
}

TEST(BackupFormatTest, ANewerFormatAndAnotherFileAreNamed) {
  std::string bytes = Encoded();
  bytes[8] = 2;
  std::vector<BackupRecord> records;
  EXPECT_THAT(Read(bytes, &records).ToString(), HasSubstr("restore it with a newer program"));
  EXPECT_THAT(Read("this is a letter", &records).ToString(), HasSubstr("no backup of a registry"));
}

TEST(BackupFileTest, AppearsAsAWholeOrNotAtAll) {
  const quire::testing::TempDir dir;
  const std::string path = dir / "backup";
  {
    auto file = BackupFile::Create(path);
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE(file->Append("unfinished").ok());
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
  auto file = BackupFile::Create(path);
  ASSERT_TRUE(file.ok() && file->Append("whole").ok());
  EXPECT_FALSE(std::filesystem::exists(path));
  ASSERT_TRUE(file->Finish().ok());
  std::string text;
  std::ifstream(path) >> text;
  EXPECT_EQ(text, "whole");
  EXPECT_THAT(BackupFile::Create("/none/backup").status().ToString(), HasSubstr("/none/backup"));
}

}  // namespace
}  // namespace quire::cluster
