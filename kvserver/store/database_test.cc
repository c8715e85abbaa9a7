// SPDX-License-Identifier: Apache-2.0
//
// The database under failing writes: what fails is not half there, reads go on, and writes recover
// when the cause is gone.
#include "kvserver/store/database.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "kvserver/store/fault_file_system.h"
#include "kvserver/store/testing/store_kit.h"
#include "tests/kit/health_lines.h"
#include "tests/kit/temp_dir.h"

namespace quire::kvserver::testing {
namespace {

using quire::testing::HealthLines;
using quire::testing::TempDir;
using ::testing::IsEmpty;

constexpr uint64_t kBufferBytes = 1 << 20;
constexpr uint64_t kLimitBytes = 1 << 30;

class DatabaseTest : public ::testing::Test {
 protected:
  void Open() {
    database_.reset();
    auto opened = Database::Open({.path = dir_ / "db",
                                  .env = env_.env.get(),
                                  .health = health_.board(),
                                  .limit_bytes = kLimitBytes,
                                  .buffer_bytes = kBufferBytes});
    ASSERT_TRUE(opened.ok()) << opened.status();
    database_ = *std::move(opened);
  }
  void SetUp() override { Open(); }

  Status Put(const std::string& key, const std::string& value, bool sync = true) {
    Database::Batch batch = database_->NewBatch();
    batch.Put(Table::kSegments, key, {value});
    batch.Put(Table::kExtents, key, {value, value});
    return database_->Commit(batch, sync);
  }
  void ExpectAbsent(const std::string& key) {
    EXPECT_EQ(database_->Get(Table::kSegments, key).status().code(), StatusCode::kNotFound);
    EXPECT_EQ(database_->Get(Table::kExtents, key).status().code(), StatusCode::kNotFound);
  }

  HealthLines health_;
  TempDir dir_;
  FaultEnv env_;
  std::unique_ptr<Database> database_;
};

TEST_F(DatabaseTest, ABatchIsReadableInAllItsTables) {
  ASSERT_TRUE(Put("a", "one").ok());
  EXPECT_EQ(*database_->Get(Table::kSegments, "a"), "one");
  EXPECT_EQ(*database_->Get(Table::kExtents, "a"), "oneone");
  EXPECT_EQ(database_->Get(Table::kDigests, "a").status().code(), StatusCode::kNotFound);
}

TEST_F(DatabaseTest, DeletePrefixDeletesExactlyThePrefix) {
  for (const char* key : {"a", "ab", "ab\xff", "ac", "b"}) ASSERT_TRUE(Put(key, "v").ok());
  Database::Batch batch = database_->NewBatch();
  batch.DeletePrefix(Table::kSegments, "ab");
  batch.DeletePrefix(Table::kExtents, "a");
  ASSERT_TRUE(database_->Commit(batch, false).ok());
  std::string left;
  ASSERT_TRUE(database_
                  ->Scan(Table::kSegments, "",
                         [&](std::string_view key, std::string_view) {
                           left += std::string(key) + " ";
                           return true;
                         })
                  .ok());
  EXPECT_EQ(left, "a ac b ");
  EXPECT_EQ(database_->Get(Table::kExtents, "ac").status().code(), StatusCode::kNotFound);
  EXPECT_TRUE(database_->Get(Table::kExtents, "b").ok());
}

TEST_F(DatabaseTest, WritesRecoverByThemselvesWhenThereIsSpaceAgain) {
  for (const Fault fault : {Fault::kNoSpace, Fault::kTornNoSpace}) {
    SCOPED_TRACE(static_cast<int>(fault));
    ASSERT_TRUE(Put("before", "1").ok());
    env_.faults.fault = fault;
    const Status refused = Put("during", std::string(100000, 'x'));
    EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted) << refused;
    EXPECT_EQ(Put("during", "2").code(), StatusCode::kResourceExhausted);
    EXPECT_TRUE(health_.board()->IsRaised(Trouble::kDiskFull));
    EXPECT_EQ(*database_->Get(Table::kSegments, "before"), "1") << "reads go on";
    ExpectAbsent("during");
    env_.faults.fault = Fault::kNone;
    const Status recovered = Put("after", "3");
    ASSERT_TRUE(recovered.ok()) << recovered;
    EXPECT_THAT(health_.board()->Degradations(), IsEmpty());
    ExpectAbsent("during");
    Open();
    EXPECT_EQ(*database_->Get(Table::kSegments, "before"), "1");
    EXPECT_EQ(*database_->Get(Table::kExtents, "after"), "33");
    ExpectAbsent("during");
  }
}

// Nothing is buffered that resuming would write, and still the log that failed must be left behind.
TEST_F(DatabaseTest, WritesRecoverAlsoWhenTheVeryFirstOneWasRefused) {
  for (const Fault fault : {Fault::kNoSpace, Fault::kTornNoSpace, Fault::kNoSpaceAtSync}) {
    SCOPED_TRACE(static_cast<int>(fault));
    env_.faults.fault = fault;
    EXPECT_EQ(Put("during", "1").code(), StatusCode::kResourceExhausted);
    env_.faults.fault = Fault::kNone;
    const Status recovered = Put("after", "2");
    ASSERT_TRUE(recovered.ok()) << recovered;
    Open();
    EXPECT_EQ(*database_->Get(Table::kExtents, "after"), "22");
    ExpectAbsent("during");
  }
}

// RocksDB starts a log with each new buffer, in the middle of a write.
TEST_F(DatabaseTest, ALogThatCouldNotBeMadeIsToldAndLosesNothingThatWasAcknowledged) {
  const std::string value(1000, 'x');
  env_.faults.fault = Fault::kNoSpaceForFiles;
  uint64_t written = 0;
  Status refused;
  while (refused.ok() && written * value.size() < 4 * kBufferBytes) {
    refused = Put(std::to_string(written), value);
    written += refused.ok() ? 1 : 0;
  }
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted) << refused;
  EXPECT_GT(written, 0u);
  env_.faults.fault = Fault::kNone;
  const Status broken = Put("after", "1");
  EXPECT_EQ(broken.code(), StatusCode::kUnavailable) << broken;
  EXPECT_NE(Message(broken).find("restart the server"), std::string_view::npos) << broken;
  EXPECT_TRUE(health_.board()->IsRaised(Trouble::kSyncFailed));
  EXPECT_EQ(*database_->Get(Table::kSegments, "0"), value) << "reads go on";
  Open();
  for (uint64_t i = 0; i < written; ++i) {
    EXPECT_EQ(*database_->Get(Table::kSegments, std::to_string(i)), value);
  }
  ExpectAbsent(std::to_string(written));
  EXPECT_TRUE(Put("after", "1").ok());
}

// Promise 3: nothing is acknowledged that only a deleted log has.
TEST_F(DatabaseTest, ALogThatIsDeletedUnderTheDatabaseIsTold) {
  ASSERT_TRUE(Put("before", "1").ok());
  for (const auto& entry : std::filesystem::directory_iterator(dir_.path() + "/db")) {
    if (entry.path().extension() != ".log") continue;
    ASSERT_TRUE(std::filesystem::remove(entry.path()));
  }
  for (int i = 0; i < 2; ++i) {
    const Status after = Put("after", "2");
    EXPECT_TRUE(absl::IsUnavailable(after)) << after;
    EXPECT_NE(Message(after).find("it was deleted"), std::string_view::npos) << after;
  }
  EXPECT_TRUE(health_.board()->IsRaised(Trouble::kDeviceFailed));
  Open();
  EXPECT_TRUE(Put("after", "2").ok());
}

TEST_F(DatabaseTest, ADirectoryThatIsDeletedUnderTheDatabaseIsTold) {
  ASSERT_TRUE(Put("before", "1").ok());
  std::filesystem::remove_all(dir_.path() + "/db");
  const Status after = Put("after", "2");
  EXPECT_TRUE(absl::IsUnavailable(after)) << after;
  EXPECT_TRUE(health_.board()->IsRaised(Trouble::kDeviceFailed));
}

// A compaction leaves the log behind, which RocksDB does not survive after a write to it failed.
TEST_F(DatabaseTest, RoomIsMadeOnlyWhereNothingIsInDoubt) {
  ASSERT_TRUE(Put("before", "1").ok());
  env_.faults.fault = Fault::kNoSpace;
  EXPECT_EQ(Put("during", std::string(100000, 'x')).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(database_->MakeRoom(kLimitBytes).code(), StatusCode::kResourceExhausted);
  env_.faults.fault = Fault::kNone;
  EXPECT_EQ(database_->MakeRoom(kLimitBytes).code(), StatusCode::kResourceExhausted);
  const Status recovered = Put("after", "2");
  EXPECT_TRUE(recovered.ok()) << recovered;
  EXPECT_EQ(*database_->Get(Table::kSegments, "before"), "1");
}

TEST_F(DatabaseTest, ADeviceErrorIsReportedAndLosesNothingThatWasAcknowledged) {
  ASSERT_TRUE(Put("before", "1").ok());
  env_.faults.fault = Fault::kIoError;
  EXPECT_EQ(Put("during", "2").code(), StatusCode::kUnavailable);
  EXPECT_EQ(*database_->Get(Table::kSegments, "before"), "1") << "reads go on";
  env_.faults.fault = Fault::kNone;
  Open();
  EXPECT_EQ(*database_->Get(Table::kSegments, "before"), "1");
  EXPECT_TRUE(Put("after", "3").ok());
}

TEST_F(DatabaseTest, WhatFailedIsInDoubtUntilWritingResumes) {
  EXPECT_TRUE(database_->Settle().ok());
  ASSERT_TRUE(Put("before", "1").ok());
  env_.faults.fault = Fault::kNoSpaceAtSync;
  EXPECT_EQ(Put("during", "2").code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(database_->Settle().code(), StatusCode::kResourceExhausted);
  env_.faults.fault = Fault::kNone;
  env_.faults.free_bytes = 1 << 20;
  const Status full = database_->Settle();
  EXPECT_EQ(full.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(Message(full).find(dir_ / "db"), std::string_view::npos) << full;
  env_.faults.free_bytes = uint64_t{1} << 40;
  const Status settled = database_->Settle();
  EXPECT_TRUE(settled.ok()) << settled;
  Open();
  EXPECT_EQ(*database_->Get(Table::kSegments, "before"), "1");
  ExpectAbsent("during");
}

TEST_F(DatabaseTest, WhatFailedAndWasNotSettledMayBeFoundInTheLog) {
  env_.faults.fault = Fault::kErrorOnceWritten;
  EXPECT_EQ(Put("during", "1").code(), StatusCode::kUnavailable);
  ExpectAbsent("during");
  env_.faults.fault = Fault::kNone;
  EXPECT_EQ(database_->Settle().code(), StatusCode::kUnavailable) << "only opening it again helps";
  Open();
  EXPECT_EQ(*database_->Get(Table::kSegments, "during"), "1");
}

TEST_F(DatabaseTest, OpeningOnAReadOnlyFileSystemIsAClearError) {
  database_.reset();
  env_.faults.fault = Fault::kReadOnly;
  const auto opened = Database::Open({.path = dir_ / "db", .env = env_.env.get()});
  EXPECT_EQ(opened.status().code(), StatusCode::kUnavailable);
  EXPECT_NE(Message(opened.status()).find("Read-only"), std::string_view::npos);
  EXPECT_NE(Message(opened.status()).find(dir_ / "db"), std::string_view::npos);
  env_.faults.fault = Fault::kNone;
  Open();
}

}  // namespace
}  // namespace quire::kvserver::testing
