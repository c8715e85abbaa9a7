// SPDX-License-Identifier: Apache-2.0
//
// The database under failing writes: no failed write is half there, reads continue, and writes
// recover when the cause is gone.
#include "kvserver/store/metadata/database.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rocksdb/db.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <thread>

#include "kvserver/store/testing/fault_file_system.h"
#include "kvserver/store/testing/store_kit.h"
#include "tests/kit/fake_clock.h"
#include "tests/kit/health_lines.h"
#include "tests/kit/temp_dir.h"

namespace quire::kvserver::testing {
namespace {

using quire::testing::HealthLines;
using quire::testing::TempDir;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr uint64_t kBufferBytes = 1 << 20;
constexpr uint64_t kLimitBytes = 1 << 30;

class DatabaseTest : public ::testing::Test {
 protected:
  void Open() {
    database_.reset();
    auto opened = Database::Open({.path = dir_ / name_,
                                  .env = env_.env.get(),
                                  .watch = &watch_,
                                  .health = health_.board(),
                                  .reads = &reads_,
                                  .limit_bytes = kLimitBytes,
                                  .buffer_bytes = kBufferBytes});
    ASSERT_TRUE(opened.ok()) << opened.status();
    database_ = *std::move(opened);
  }
  void SetUp() override {
    env_.faults.before = [this](FaultSwitch::Operation operation) {
      std::function<bool(FaultSwitch::Operation)> hook;
      {
        MutexLock lock(hook_mutex_);
        std::swap(hook, hook_);
      }
      if (!hook || hook(operation)) return;
      MutexLock lock(hook_mutex_);
      hook_ = std::move(hook);
    };
    Open();
  }

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

  /// Runs `work` while its first operation of that kind waits, and expects the watch to find it as
  /// `what`.
  void ExpectSeenInFlight(FaultSwitch::Operation kind, const std::string& what,
                          const std::function<void()>& work) {
    std::promise<void> met, go_on;
    std::thread worker;
    {
      MutexLock lock(hook_mutex_);
      hook_ = [&, kind](FaultSwitch::Operation operation) {
        if (operation != kind) return false;
        met.set_value();
        go_on.get_future().wait();
        return true;
      };
    }
    worker = std::thread(work);
    met.get_future().wait();
    clock_.Advance(kStallBound + std::chrono::milliseconds(1));
    const auto stall = watch_.Find();
    EXPECT_TRUE(stall.has_value());
    if (stall) EXPECT_EQ(stall->what, what);
    go_on.set_value();
    worker.join();
    EXPECT_FALSE(watch_.Find().has_value());
  }

  static constexpr Duration kStallBound = std::chrono::seconds(5);
  HealthLines health_;
  quire::testing::FakeClock clock_;
  StallWatch watch_{&clock_, kStallBound};
  RecurringTrouble reads_{health_.board(), Trouble::kReadFailed, &clock_, std::chrono::seconds(60)};
  TempDir dir_;
  std::string name_ = "db";
  Mutex hook_mutex_;
  /// Returns true when it has met its operation, which ends it.
  std::function<bool(FaultSwitch::Operation)> hook_ QUIRE_GUARDED_BY(hook_mutex_);
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

TEST_F(DatabaseTest, AReadThatTheDeviceFailsIsToldAndOverAfterAQuietTime) {
  ASSERT_TRUE(Put("a", "one").ok());
  Open();  // From here on it is in a table, and not in memory.
  env_.faults.fault = Fault::kReadError;
  EXPECT_EQ(database_->Get(Table::kSegments, "a").status().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(health_.board()->IsRaised(Trouble::kReadFailed));
  const auto all = [](std::string_view, std::string_view) { return true; };
  EXPECT_EQ(database_->Scan(Table::kExtents, "", all).code(), StatusCode::kUnavailable);
  ASSERT_FALSE(health_.lines().empty());
  EXPECT_THAT(health_.lines().front(),
              AllOf(StartsWith("read_failed: cannot read "), HasSubstr("Input/output error")));
  env_.faults.fault = Fault::kNone;
  EXPECT_EQ(*database_->Get(Table::kSegments, "a"), "one");
  EXPECT_TRUE(health_.board()->IsRaised(Trouble::kReadFailed)) << "it may be one bad place";
  clock_.Advance(std::chrono::seconds(60));
  EXPECT_EQ(database_->Scan(Table::kExtents, "", all), OkStatus());
  EXPECT_THAT(health_.board()->Degradations(), IsEmpty());
}

TEST_F(DatabaseTest, DamageThatAReadFindsIsTold) {
  ASSERT_TRUE(Put("a", std::string(1000, 'x')).ok());
  Open();
  database_.reset();
  for (const auto& entry : std::filesystem::directory_iterator(dir_ / "db")) {
    if (entry.path().extension() != ".sst") continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(4);
    file.write("rubbish", 7);
  }
  Open();
  EXPECT_EQ(database_->Get(Table::kSegments, "a").status().code(), StatusCode::kDataLoss);
  EXPECT_TRUE(health_.board()->IsRaised(Trouble::kRecordsDamaged));
}

// The watch sees I/O of callers and of RocksDB itself.
TEST_F(DatabaseTest, IoOfReadsCompactionsAndRecoveriesIsSeenInFlight) {
  ASSERT_TRUE(Put("a", "one").ok());
  Open();
  ExpectSeenInFlight(FaultSwitch::Operation::kRead, "a read of the metadata",
                     [&] { EXPECT_EQ(*database_->Get(Table::kSegments, "a"), "one"); });
  Open();
  ExpectSeenInFlight(FaultSwitch::Operation::kRead, "a read of the metadata", [&] {
    EXPECT_TRUE(database_->Scan(Table::kExtents, "", [](auto, auto) { return true; }).ok());
  });
  Database::Batch batch = database_->NewBatch();
  batch.Delete(Table::kSegments, "a");
  ASSERT_TRUE(database_->Commit(batch, /*sync=*/true).ok());
  ExpectSeenInFlight(FaultSwitch::Operation::kAppend, "a write to the metadata's files", [&] {
    EXPECT_EQ(database_->MakeRoom(2 * kLimitBytes).code(), StatusCode::kResourceExhausted);
  });
  env_.faults.fault = Fault::kErrorAtSync;
  env_.faults.failures_left = 1;
  // The log's sync fails, and then the recovery writes its probe.
  ExpectSeenInFlight(FaultSwitch::Operation::kCreate, "a write to the metadata's files",
                     [&] { (void)Put("b", "two"); });
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

// Resuming has no buffered writes, and still must leave the failed log behind.
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

// Promise 3: nothing is acknowledged that is only in a deleted log.
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

// Promise 3: a log that broke, and a device that fails once more at any point of leaving that log.
TEST_F(DatabaseTest, ADeviceThatFailsAgainWhileWritingResumesLeavesADatabaseThatOpens) {
  constexpr uint64_t kTorn = 1;  // Torn append: the log record, among the appends of the commit.
  bool has_failed_again = true;
  for (uint64_t failing = kTorn + 1; has_failed_again; ++failing) {
    SCOPED_TRACE(failing);
    name_ = "db" + std::to_string(failing);
    Open();
    ASSERT_EQ(Put("before", "1"), OkStatus());
    has_failed_again = false;
    {
      MutexLock lock(hook_mutex_);
      hook_ = [&, append = uint64_t{0}](FaultSwitch::Operation operation) mutable {
        if (operation != FaultSwitch::Operation::kAppend) return false;
        ++append;
        if (append != kTorn && append != failing) return false;
        env_.faults.failures_left = append == kTorn ? 1 : UINT64_MAX;
        env_.faults.fault = Fault::kTornNoSpace;
        has_failed_again = append == failing;
        return has_failed_again;
      };
    }
    (void)Put("during", "2");
    database_.reset();
    env_.faults.fault = Fault::kNone;
    {
      MutexLock lock(hook_mutex_);
      hook_ = nullptr;
    }
    Open();
    EXPECT_EQ(*database_->Get(Table::kSegments, "before"), "1");
  }
}

// RocksDB leaves a log behind in the middle of a write, and notes that in its manifest.
TEST_F(DatabaseTest, AManifestThatBreaksInTheMiddleOfAWriteLeavesADatabaseThatCloses) {
  database_.reset();
  const auto writer = std::this_thread::get_id();
  std::atomic<bool> is_armed{false};
  env_.faults.before = [&](FaultSwitch::Operation operation) {
    // The writer itself syncs nothing but the manifest: its writes ask for no sync.
    if (is_armed && operation == FaultSwitch::Operation::kSync &&
        std::this_thread::get_id() == writer) {
      env_.faults.fault = Fault::kIoError;
    }
  };
  Open();
  ASSERT_EQ(Put("before", "1"), OkStatus());
  is_armed = true;
  const std::string value(1000, 'x');
  Status written;
  for (uint64_t i = 0; written.ok() && i * value.size() < 4 * kBufferBytes; ++i) {
    Database::Batch batch = database_->NewBatch();
    batch.Put(Table::kSegments, std::to_string(i), {value});
    written = database_->Commit(batch, /*sync=*/false);
  }
  EXPECT_TRUE(absl::IsUnavailable(written)) << written;
  is_armed = false;
  database_.reset();
  env_.faults.fault = Fault::kNone;
  Open();
  EXPECT_EQ(*database_->Get(Table::kSegments, "before"), "1");
  EXPECT_EQ(Put("after", "1"), OkStatus());
  database_.reset();
  env_.faults.before = nullptr;
}

// A torn log that tables are ahead of is made here by flushing one table alone.
TEST_F(DatabaseTest, ATornLogThatTablesAreAheadOfIsPassedOver) {
  database_.reset();
  const std::string path = dir_ / name_;
  std::vector<std::string> names;
  ASSERT_TRUE(rocksdb::DB::ListColumnFamilies({}, path, &names).ok());
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  for (const std::string& name : names) families.emplace_back(name, rocksdb::ColumnFamilyOptions());
  rocksdb::DBOptions options;
  options.avoid_flush_during_shutdown = true;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* opened = nullptr;
  ASSERT_TRUE(rocksdb::DB::Open(options, path, families, &handles, &opened).ok());
  std::unique_ptr<rocksdb::DB> db(opened);
  const auto table = [&](const std::string& name) {
    return handles[static_cast<size_t>(std::ranges::find(names, name) - names.begin())];
  };
  ASSERT_TRUE(db->Put({}, table("segments"), "before", "1").ok());
  ASSERT_TRUE(db->Put({}, table("default"), "ahead", "").ok());
  rocksdb::VectorLogPtr logs;
  ASSERT_TRUE(db->GetSortedWalFiles(logs).ok());
  ASSERT_TRUE(db->Flush({}, table("default")).ok());
  ASSERT_TRUE(db->Put({}, table("segments"), "behind", "2").ok());
  for (rocksdb::ColumnFamilyHandle* handle : handles) (void)db->DestroyColumnFamilyHandle(handle);
  db.reset();
  const std::string torn = path + logs.back()->PathName();
  std::filesystem::resize_file(torn, std::filesystem::file_size(torn) - 1);

  Open();
  EXPECT_EQ(*database_->Get(Table::kSegments, "before"), "1");
  EXPECT_EQ(*database_->Get(Table::kSegments, "behind"), "2");
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
