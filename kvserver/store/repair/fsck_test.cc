// SPDX-License-Identifier: Apache-2.0
//
// Fsck finds and names each kind of damage. It changes nothing unless told to repair, and leaves a
// clean store that serves intact segments.
#include "kvserver/store/repair/fsck.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>

#include "kvserver/store/page_store_impl.h"
#include "kvserver/store/payload/engine/engine_choice.h"
#include "kvserver/store/payload/testing/fault_engine.h"
#include "kvserver/store/testing/store_kit.h"
#include "kvserver/store/testing/volume_damage.h"
#include "tests/kit/temp_dir.h"

namespace quire::kvserver::testing {
namespace {

using ::testing::HasSubstr;
using Problem = FsckProblem::Kind;

class FsckTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto store = OpenStore();
    chain_ = PutTestChain(*store, spec_, /*seed=*/1, /*num_segments=*/3).value();
  }
  std::unique_ptr<PageStoreImpl> OpenStore() { return PageStoreImpl::Open(options_, {}).value(); }
  std::unique_ptr<Database> OpenDatabase() {
    return Database::Open({.path = dir_ / "metadata"}).value();
  }
  FsckReport Check(bool repair = false) {
    const auto report = Fsck(dir_.path(), {.repair = repair});
    EXPECT_TRUE(report.ok()) << report.status();
    return *report;
  }
  void Overwrite(Table table, const std::string& key, const std::string& value) {
    const auto database = OpenDatabase();
    Database::Batch batch = database->NewBatch();
    batch.Put(table, key, {value});
    ASSERT_TRUE(database->Commit(batch, /*sync=*/true).ok());
  }
  void FlipByteOfVolume(uint64_t offset) {
    std::fstream file(Volume(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    const int byte = file.get();
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(static_cast<char>(byte ^ 1));
  }
  std::string Volume() const { return dir_ / "payload/00000000.vol"; }
  std::string ExtentKey(const SegmentKey& key, uint32_t layer) const {
    return SsdTier::RecordKey({key, layer});
  }
  /// Expects one problem of this kind. A repair removes it with its segment.
  void ExpectFoundAndRepaired(Problem kind, const std::string& what) {
    const FsckReport found = Check();
    ASSERT_EQ(found.problem_count, 1u);
    EXPECT_EQ(found.problems[0].kind, kind);
    EXPECT_THAT(found.problems[0].what, HasSubstr(what));
    EXPECT_FALSE(found.problems[0].dropped);
    EXPECT_EQ(Check().problem_count, 1u) << "a check changes nothing";
    const FsckReport repaired = Check(/*repair=*/true);
    EXPECT_EQ(repaired.problem_count, 1u);
    EXPECT_TRUE(repaired.problems[0].dropped);
    EXPECT_TRUE(Check().clean());
  }

  quire::testing::TempDir dir_;
  PageStore::Options options_{
      .ssd_path = dir_.path(), .dram_bytes = 1 << 20, .ssd_volume_bytes = kTestVolumeBytes};
  KvSpec spec_ = LargeUnitSpec();
  std::vector<TestSegment> chain_;
};

TEST_F(FsckTest, ASoundDirectoryIsCleanAndCounted) {
  uint64_t told = 0;
  const auto report = Fsck(dir_.path(), {.progress = [&](uint64_t segments, uint64_t of_segments) {
                             EXPECT_EQ(segments, ++told);
                             EXPECT_EQ(of_segments, 3u);
                           }});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->clean());
  EXPECT_EQ(told, 3u);
  EXPECT_EQ(report->volumes, 1u);
  EXPECT_EQ(report->segments, 3u);
  EXPECT_EQ(report->extents, 6u);
  EXPECT_EQ(report->units, 24u);
  EXPECT_EQ(report->payload_bytes, 3 * SegmentBytes(spec_, spec_.segment_pages));
  EXPECT_EQ(report->detached, 0u);
}

TEST_F(FsckTest, WhatNoDocumentRefersToIsCountedAsTheServerCountsIt) {
  std::map<std::string, uint64_t> server;
  {
    const auto store = OpenStore();
    MetadataBatch batch;
    for (size_t i = 0; i < 2; ++i) batch.Put("document " + chain_[i].key.Hex(), "");
    ASSERT_TRUE(store->metadata().Apply(batch).ok());
    ASSERT_TRUE(store->NameSegments("default", {{chain_[0].key, chain_[1].key}}).ok());
    server = CountersOf(*store);
  }
  const auto report = Fsck(
      dir_.path(), {.reference = [](std::string_view key) {
        return key.starts_with("document ") ? SegmentKey::FromHex(key.substr(9)) : std::nullopt;
      }});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->clean());
  EXPECT_EQ(report->cached_segments, 1u);
  EXPECT_EQ(report->cached_segments, server.at("segments_cached"));
  EXPECT_EQ(report->cached_bytes, server.at("ssd_bytes_cached"));
  EXPECT_EQ(report->payload_bytes, server.at("ssd_bytes_used"));
}

TEST_F(FsckTest, ADirectoryThatAServerUsesOrThatIsNoneIsRefused) {
  const auto store = OpenStore();
  const auto in_use = Fsck(dir_.path(), {});
  EXPECT_EQ(in_use.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(Message(in_use.status())), HasSubstr("stop that one"));
  const auto none = Fsck(dir_ / "nothing", {});
  EXPECT_EQ(none.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Message(none.status())), HasSubstr("--data-dir"));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "nothing")) << "nothing was made";
}

TEST_F(FsckTest, AFlippedBitOfAUnitIsFoundAndItsSegmentDropped) {
  FlipByteOfVolume(kBlockBytes + 100);
  ExpectFoundAndRepaired(Problem::kUnits, "1 of 4 units are damaged");
  const auto store = OpenStore();
  const auto keys = store->Lookup("default", spec_, chain_[0].tokens);
  EXPECT_TRUE(keys->empty()) << "the first segment's unit was flipped";
  EXPECT_EQ(*ReadSegment(*store, spec_, chain_[2]), chain_[2].payload);
  EXPECT_EQ(*ReadSegment(*store, spec_, PutTestSegment(*store, spec_, 1).value()),
            chain_[0].payload)
      << "a put brings it back";
}

TEST_F(FsckTest, ADamagedRecordIsFoundAndItsSegmentDropped) {
  Overwrite(Table::kSegments, std::string(chain_[2].key.view()), "nonsense");
  ExpectFoundAndRepaired(Problem::kSegment, chain_[2].key.Hex());
}

TEST_F(FsckTest, ARecordUnderAnotherKeyIsFound) {
  const auto value =
      OpenDatabase()->Get(Table::kSegments, std::string(chain_[1].key.view())).value();
  Overwrite(Table::kSegments, std::string(chain_[2].key.view()), value);
  const FsckReport report = Check();
  ASSERT_FALSE(report.clean());
  EXPECT_THAT(report.problems[0].what, HasSubstr("that of another segment"));
  Check(/*repair=*/true);
  EXPECT_TRUE(Check().clean());
}

TEST_F(FsckTest, AMissingExtentIsFound) {
  {
    const auto database = OpenDatabase();
    Database::Batch batch = database->NewBatch();
    batch.Delete(Table::kExtents, ExtentKey(chain_[2].key, 1));
    ASSERT_TRUE(database->Commit(batch, /*sync=*/true).ok());
  }
  ExpectFoundAndRepaired(Problem::kExtent, "layer 1: its extent has no record");
}

TEST_F(FsckTest, ADamagedExtentRecordIsFound) {
  Overwrite(Table::kExtents, ExtentKey(chain_[2].key, 0), "nonsense");
  ExpectFoundAndRepaired(Problem::kExtent, "layer 0");
}

TEST_F(FsckTest, TwoExtentsInOnePlaceAreFoundAndTheDamagedOneDropped) {
  const auto value = OpenDatabase()->Get(Table::kExtents, ExtentKey(chain_[0].key, 0)).value();
  Overwrite(Table::kExtents, ExtentKey(chain_[2].key, 0), value);
  const FsckReport report = Check();
  EXPECT_EQ(report.problem_count, 2u) << "the space, and the units that are others'";
  Check(/*repair=*/true);
  EXPECT_TRUE(Check().clean());
  const auto store = OpenStore();
  EXPECT_EQ(*ReadSegment(*store, spec_, chain_[0]), chain_[0].payload);
  EXPECT_FALSE(ReadSegment(*store, spec_, chain_[2]).ok());
}

TEST_F(FsckTest, DamagedDigestsAreFound) {
  OverwriteOnSsd(*OpenDatabase(), dir_.path(), {chain_[2].key, kDigestsLayer}, 1, "nonsense");
  ExpectFoundAndRepaired(Problem::kDigests, "fail their checksum");
}

TEST_F(FsckTest, DigestsInAPlaceOfOthersAreFound) {
  const auto value =
      OpenDatabase()->Get(Table::kExtents, ExtentKey(chain_[0].key, kDigestsLayer)).value();
  Overwrite(Table::kExtents, ExtentKey(chain_[2].key, kDigestsLayer), value);
  const FsckReport report = Check();
  EXPECT_EQ(report.problem_count, 1u);
  EXPECT_EQ(report.problems[0].kind, Problem::kExtent);
  EXPECT_THAT(report.problems[0].what, HasSubstr("digests: its space"));
}

TEST_F(FsckTest, DerivedDigestsBelongToTheirSegment) {
  for (const TestSegment& segment : chain_) {
    for (const kernels::DigestKind kind : kernels::kDigestKinds) {
      ASSERT_TRUE(OpenStore()->ReadDigests("default", segment.key, 1, kind).ok());
    }
  }
  EXPECT_TRUE(Check().clean());
  Overwrite(Table::kDigests, ExtentKey(chain_[0].key, 1) + '\x08', "of an unknown kind");
  ExpectFoundAndRepaired(Problem::kOrphan, "belongs to no segment");
}

TEST_F(FsckTest, RecordsOfNoSegmentAreFoundAndDropped) {
  const auto value = OpenDatabase()->Get(Table::kExtents, ExtentKey(chain_[2].key, 0)).value();
  Overwrite(Table::kExtents, ExtentKey(SegmentKey{.bytes = {1, 2, 3}}, 0), value);
  ExpectFoundAndRepaired(Problem::kOrphan, "belongs to no segment");
  EXPECT_EQ(*ReadSegment(*OpenStore(), spec_, chain_[2]), chain_[2].payload);
}

TEST_F(FsckTest, ACutVolumeIsFoundWithWhatItHeld) {
  std::filesystem::resize_file(Volume(), kBlockBytes + 3 * SegmentBytes(spec_, 1));
  const FsckReport report = Check();
  ASSERT_GE(report.problem_count, 2u);
  EXPECT_EQ(report.problems[0].kind, Problem::kVolume);
  EXPECT_THAT(report.problems[0].what, HasSubstr("00000000.vol"));
  EXPECT_GT(Check(/*repair=*/true).segments_dropped, 0u);
  EXPECT_EQ(Check().problem_count, 1u) << "the volume stays short, and nothing needs the rest";
}

TEST_F(FsckTest, AVolumeWithoutAHeaderIsSetAsideSoThatTheServerOpens) {
  FlipByteOfVolume(0);
  EXPECT_EQ(PageStoreImpl::Open(options_, {}).status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(Check().problems[0].kind, Problem::kVolume);
  const FsckReport repaired = Check(/*repair=*/true);
  EXPECT_EQ(repaired.volumes_set_aside, 1u);
  EXPECT_EQ(repaired.segments_dropped, 3u);
  EXPECT_TRUE(std::filesystem::exists(Volume() + ".damaged"));
  EXPECT_TRUE(Check().clean());
  EXPECT_TRUE(PutTestSegment(*OpenStore(), spec_, 1).ok());
}

TEST_F(FsckTest, ADamagedSaltIsFoundAndNotDropped) {
  Overwrite(Table::kTenants, "default", "nonsense");
  const FsckReport report = Check(/*repair=*/true);
  ASSERT_EQ(report.problem_count, 1u);
  EXPECT_EQ(report.problems[0].kind, Problem::kTenant);
  EXPECT_FALSE(report.problems[0].dropped);
  EXPECT_EQ(report.segments_dropped, 0u);
}

TEST_F(FsckTest, ADatabaseThatCannotBeOpenedIsAProblemWithARemedy) {
  std::ofstream(dir_ / "metadata/CURRENT", std::ios::trunc) << "MANIFEST-999999\n";
  const FsckReport report = Check();
  ASSERT_EQ(report.problem_count, 1u);
  EXPECT_EQ(report.problems[0].kind, Problem::kMetadata);
  EXPECT_THAT(report.problems[0].what, HasSubstr("restore"));
}

TEST_F(FsckTest, ADeviceThatFailsIsNoDamage) {
  const auto device = ChooseEngine(EngineKind::kAuto, {}).value().engine;
  FaultEngine engine(device.get());
  engine.FailEverything(EIO);
  const auto report = Fsck(dir_.path(), {.repair = true, .engine = &engine});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->problem_count, 12u) << "units and digests of two layers of three segments";
  for (const FsckProblem& problem : report->problems) EXPECT_EQ(problem.kind, Problem::kDevice);
  EXPECT_EQ(report->segments_dropped, 0u);
  EXPECT_TRUE(Check().clean());
}

TEST_F(FsckTest, AParentThatWasDeletedIsNoProblem) {
  ASSERT_TRUE(OpenStore()->DeleteSegment("default", chain_[0].key).ok());
  const FsckReport report = Check();
  EXPECT_TRUE(report.clean());
  EXPECT_EQ(report.detached, 1u);
}

}  // namespace
}  // namespace quire::kvserver::testing
