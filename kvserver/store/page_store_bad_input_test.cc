// SPDX-License-Identifier: Apache-2.0
//
// Accidents of people and machines: absurd sizes, another version's directory, files cut by hand, a
// device that disappears, a file system without room. Each gives an error that names the remedy,
// and leaves the store unchanged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>

#include "kvserver/store/page_store_impl.h"
#include "kvserver/store/payload/engine/engine_choice.h"
#include "kvserver/store/payload/testing/fault_engine.h"
#include "kvserver/store/repair/fsck.h"
#include "kvserver/store/testing/fault_file_system.h"
#include "kvserver/store/testing/store_kit.h"
#include "tests/kit/temp_dir.h"

namespace quire::kvserver::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AnyOf;
using ::testing::HasSubstr;

std::string Text(const Status& status) { return std::string(Message(status)); }

class BadInputTest : public ::testing::Test {
 protected:
  StatusOr<std::unique_ptr<PageStoreImpl>> TryOpen() {
    return PageStoreImpl::Open(options_, {.env = env_.env.get(), .engine = &engine_});
  }
  std::unique_ptr<PageStoreImpl> Open() {
    auto store = TryOpen();
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  }
  std::vector<fs::path> MetadataFiles(const std::string& extension) {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(dir_ / "metadata")) {
      if (entry.path().extension() == extension && entry.file_size() > 0) {
        files.push_back(entry.path());
      }
    }
    return files;
  }
  /// Opens the remains: the store is refused with a reason, or serves only right bytes.
  void ExpectRefusedOrRight(const std::vector<TestSegment>& segments) {
    const auto opened = TryOpen();
    if (!opened.ok()) {
      EXPECT_EQ(opened.status().code(), StatusCode::kDataLoss) << opened.status();
      EXPECT_THAT(Text(opened.status()), HasSubstr(dir_.path()));
      return;
    }
    for (const TestSegment& segment : segments) {
      const auto read = ReadSegment(**opened, spec_, segment);
      if (read.ok()) {
        EXPECT_EQ(*read, segment.payload);
      } else {
        EXPECT_THAT(read.status().code(), AnyOf(StatusCode::kDataLoss, StatusCode::kNotFound))
            << read.status();
      }
    }
  }

  quire::testing::TempDir dir_;
  FaultEnv env_;
  std::unique_ptr<IoEngine> device_ = ChooseEngine(EngineKind::kAuto, {}).value().engine;
  FaultEngine engine_{device_.get()};
  PageStore::Options options_{
      .ssd_path = dir_.path(), .dram_bytes = 1 << 20, .ssd_volume_bytes = kTestVolumeBytes};
  KvSpec spec_ = LargeUnitSpec();
};

TEST_F(BadInputTest, AbsurdSizesAreNamedAndNothingIsHarmed) {
  const auto segment = PutTestSegment(*Open(), spec_, 1);
  const auto expect = [&](const std::string& name, uint64_t PageStore::Options::*size,
                          uint64_t value) {
    SCOPED_TRACE(name + " = " + std::to_string(value));
    const uint64_t before = options_.*size;
    options_.*size = value;
    const auto opened = TryOpen();
    EXPECT_EQ(opened.status().code(), StatusCode::kInvalidArgument) << opened.status();
    EXPECT_THAT(Text(opened.status()), HasSubstr(name));
    options_.*size = before;
  };
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 62, UINT64_MAX}) {
    expect("dram_bytes", &PageStore::Options::dram_bytes, bytes);
  }
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{4096}, uint64_t{65537}, UINT64_MAX}) {
    expect("volume size", &PageStore::Options::ssd_volume_bytes, bytes);
  }
  EXPECT_EQ(*ReadSegment(*Open(), spec_, *segment), segment->payload);
}

TEST_F(BadInputTest, ADirectoryOfAnotherVersionIsRefusedAndLeftAsItIs) {
  const auto segment = PutTestSegment(*Open(), spec_, 1);
  const std::string sound = "quire-data-format " + std::to_string(DataDirectory::kFormatVersion);
  std::ofstream(dir_ / "FORMAT") << "quire-data-format 999\n";
  EXPECT_EQ(TryOpen().status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(Text(TryOpen().status()), HasSubstr("upgrade the server"));
  EXPECT_EQ(Fsck(dir_.path(), {.repair = true}).status().code(), StatusCode::kFailedPrecondition);
  std::ofstream(dir_ / "FORMAT") << sound << "\n";
  EXPECT_EQ(*ReadSegment(*Open(), spec_, *segment), segment->payload);
}

TEST_F(BadInputTest, AChainIsNotContinuedWithAnotherKvSpec) {
  const auto store = Open();
  const auto segment = PutTestSegment(*store, spec_, 1);
  KvSpec other = spec_;
  other.rope.theta = spec_.rope.theta * 2;
  const auto refused = PutTestSegment(*store, other, 2, segment->key);
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Text(refused.status()), HasSubstr("another KvSpec"));
  EXPECT_EQ(CountersOf(*store)["segments"], 1u);
}

TEST_F(BadInputTest, ATableCutByHandIsRefusedOrServesRightBytesOnly) {
  const auto chain = PutTestChain(*Open(), spec_, /*seed=*/1, /*num_segments=*/4);
  Open().reset();  // the log's contents go to tables
  const std::vector<fs::path> tables = MetadataFiles(".sst");
  ASSERT_FALSE(tables.empty());
  for (const fs::path& table : tables) {
    const fs::path copy = table.string() + ".copy";
    fs::copy_file(table, copy);
    fs::resize_file(table, fs::file_size(table) / 2);
    const auto report = Fsck(dir_.path(), {});
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_FALSE(report->clean()) << table << " is cut, and fsck does not tell";
    fs::rename(copy, table);
  }
  fs::resize_file(tables.front(), fs::file_size(tables.front()) / 2);
  ExpectRefusedOrRight(*chain);
}

TEST_F(BadInputTest, ALogCutByHandIsRefusedOrServesRightBytesOnly) {
  const auto chain = PutTestChain(*Open(), spec_, /*seed=*/1, /*num_segments=*/4);
  const std::vector<fs::path> logs = MetadataFiles(".log");
  ASSERT_FALSE(logs.empty());
  fs::resize_file(logs.back(), fs::file_size(logs.back()) / 2);
  ExpectRefusedOrRight(*chain);
}

TEST_F(BadInputTest, ALostSaltIsNotReplacedInSilence) {
  {
    const auto store = Open();
    ASSERT_TRUE(PutTestSegment(*store, spec_, 1).ok());
    Database::Batch batch = store->database().NewBatch();
    batch.Delete(Table::kTenants, "default");
    ASSERT_TRUE(store->database().Commit(batch, /*sync=*/false).ok());
  }
  EXPECT_EQ(TryOpen().status().code(), StatusCode::kDataLoss);
  EXPECT_THAT(Text(TryOpen().status()), HasSubstr("its salt is gone"));
  const auto report = Fsck(dir_.path(), {});
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(report->problem_count, 1u);
  EXPECT_EQ(report->problems[0].kind, FsckProblem::Kind::kTenant);
  options_.tenants = {"another"};
  EXPECT_TRUE(TryOpen().ok()) << "a tenant without segments gets its first salt";
}

// Promise 3: acknowledged segments are there when the device is.
TEST_F(BadInputTest, ADeviceThatGoesIsNamedAndDramServesOn) {
  std::vector<TestSegment> put;
  {
    const auto store = Open();
    for (uint64_t seed = 0; seed < 40; ++seed) {
      put.push_back(
          PutTestSegment(*store, spec_, seed, kRootKey, /*num_tokens=*/0, Durability::kPersisted)
              .value());
    }
    engine_.FailEverything(ENODEV);
    EXPECT_EQ(*ReadSegment(*store, spec_, put.back()), put.back().payload) << "it is in DRAM";
    const auto evicted = ReadSegment(*store, spec_, put.front());
    EXPECT_EQ(evicted.status().code(), StatusCode::kUnavailable) << evicted.status();
    const auto refused = PutTestSegment(*store, spec_, 1000);
    EXPECT_EQ(refused.status().code(), StatusCode::kUnavailable) << refused.status();
    EXPECT_THAT(Text(refused.status()), HasSubstr(".vol"));
    EXPECT_EQ(CountersOf(*store)["segments_damaged"], 0u) << "nothing is known to be damaged";
  }
  engine_.FailEverything(0);
  const auto store = Open();
  for (const TestSegment& segment : put) {
    EXPECT_EQ(*ReadSegment(*store, spec_, segment), segment.payload);
  }
  EXPECT_TRUE(store->Lookup("default", spec_, MakeTokens(spec_.segment_tokens(), 1000))->empty());
}

TEST_F(BadInputTest, ASmallFileSystemGetsSmallVolumesAndLeavesRoomForTheMetadata) {
  constexpr uint64_t kForMetadata = 128 << 20;
  options_.ssd_volume_bytes = 64 << 20;
  env_.faults.free_bytes = kForMetadata + (3 << 20) + 100;
  const auto store = Open();
  const auto segment = PutTestSegment(*store, spec_, 1);
  ASSERT_TRUE(segment.ok()) << segment.status();
  EXPECT_EQ(fs::file_size(dir_ / "payload/00000000.vol"), uint64_t{3} << 20);
  env_.faults.free_bytes = kForMetadata;
  // Named segments make no room for others.
  ASSERT_TRUE(store->NameSegments("default", {{segment->key}}).ok());
  Status full;
  for (uint64_t seed = 2; full.ok() && seed < 1000; ++seed) {
    const auto put = PutTestSegment(*store, spec_, seed);
    full = put.ok() ? store->NameSegments("default", {{put->key}}) : put.status();
  }
  EXPECT_EQ(full.code(), StatusCode::kResourceExhausted) << full;
  EXPECT_THAT(Text(full), HasSubstr("free space"));
  store->UnnameSegments("default", {{segment->key}});
  ASSERT_TRUE(store->DeleteSegment("default", segment->key).ok());
  EXPECT_TRUE(PutTestSegment(*store, spec_, 1).ok()) << "space that was freed is used again";
}

}  // namespace
}  // namespace quire::kvserver::testing
