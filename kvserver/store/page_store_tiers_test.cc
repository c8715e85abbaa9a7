// SPDX-License-Identifier: Apache-2.0
//
// PageStore with less DRAM than data, with damaged stored bytes, with failing writes, and after a
// reopen.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <utility>

#include "kvserver/store/metadata/checked_value.h"
#include "kvserver/store/page_store_impl.h"
#include "kvserver/store/testing/fault_file_system.h"
#include "kvserver/store/testing/store_kit.h"
#include "kvserver/store/testing/volume_damage.h"
#include "tests/kit/temp_dir.h"

namespace quire::kvserver::testing {
namespace {

using quire::testing::TempDir;

class PageStoreTiersTest : public ::testing::Test {
 protected:
  void SetUp() override { Open(); }
  void Open() {
    store_.reset();
    auto opened = PageStoreImpl::Open(options_, {.env = env_.env.get()});
    ASSERT_TRUE(opened.ok()) << opened.status();
    store_ = *std::move(opened);
  }
  uint64_t Count(const std::string& name) { return CountersOf(*store_)[name]; }

  ExtentRecord RecordOf(const ExtentId& id) { return RecordOnSsd(store_->database(), id); }
  std::pair<std::string, uint64_t> PlaceOf(const ExtentId& id, uint32_t unit) {
    return PlaceOnSsd(store_->database(), dir_.path(), id, unit);
  }
  std::string StoredUnit(const ExtentId& id, uint32_t unit) {
    const auto [path, offset] = PlaceOf(id, unit);
    std::string bytes(RecordOf(id).unit_bytes(), '\0');
    std::ifstream file(path, std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return bytes;
  }
  /// Overwrites the start of one unit on SSD, past the store.
  void Overwrite(const ExtentId& id, uint32_t unit, std::string_view bytes) {
    OverwriteOnSsd(store_->database(), dir_.path(), id, unit, bytes);
  }
  void OverwriteRecord(Table table, const std::string& key, std::string_view value) {
    Database::Batch batch = store_->database().NewBatch();
    batch.Put(table, key, {value});
    ASSERT_TRUE(store_->database().Commit(batch, true).ok());
  }
  Status ReadUnit(const ExtentId& id, uint32_t unit) {
    const std::vector<UnitAddress> addresses = {{id.segment, id.layer, unit}};
    std::vector<UnitBytes> units;
    return store_->ReadUnits("default", addresses, &units);
  }

  TempDir dir_;
  FaultEnv env_;
  PageStore::Options options_{
      .ssd_path = dir_.path(), .dram_bytes = 1 << 20, .ssd_volume_bytes = kTestVolumeBytes};
  KvSpec spec_ = LargeUnitSpec();  // 32 KiB a full extent, 64 KiB a segment
  std::unique_ptr<PageStoreImpl> store_;
};

TEST_F(PageStoreTiersTest, DataLargerThanDramIsReadBackFromSsd) {
  const auto chain = PutTestChain(*store_, spec_, 1, 64);  // 4 MiB in 1 MiB
  ASSERT_TRUE(chain.ok()) << chain.status();
  EXPECT_LE(Count("dram_bytes_used"), uint64_t{1} << 20);
  EXPECT_GT(Count("dram_evictions"), 0u);
  for (const TestSegment& segment : *chain) {
    ASSERT_EQ(*ReadSegment(*store_, spec_, segment), segment.payload);
  }
  EXPECT_GT(Count("ssd_unit_reads"), 0u);
  EXPECT_GE(Count("ssd_read_bytes"), Count("ssd_unit_reads") * quire::UnitBytes(spec_));
  EXPECT_EQ(Count("segments"), 64u);
  EXPECT_EQ(Count("ssd_bytes_used"), 64 * SegmentBytes(spec_, 2));
}

TEST_F(PageStoreTiersTest, ASparseReadReadsItsUnitsOnly) {
  const auto segment = PutTestSegment(*store_, spec_, 1);
  Open();  // DRAM is empty
  ASSERT_TRUE(ReadUnit({segment->key, 0}, 2).ok());
  EXPECT_EQ(Count("ssd_unit_reads"), 1u);
  EXPECT_EQ(Count("ssd_read_bytes"), quire::UnitBytes(spec_));
  EXPECT_EQ(Count("payload_device_read_bytes"), quire::UnitBytes(spec_)) << "and no neighbour";
  EXPECT_EQ(Count("dram_extents"), 0u) << "served around DRAM";
}

TEST_F(PageStoreTiersTest, TheSecondRequestBringsAnExtentBackToDram) {
  const auto segment = PutTestSegment(*store_, spec_, 1);
  Open();
  std::vector<UnitBytes> units;
  const std::vector<UnitAddress> two = {{segment->key, 0, 0}, {segment->key, 0, 3}};
  ASSERT_TRUE(store_->ReadUnits("default", two, &units).ok());
  EXPECT_EQ(Count("promotions"), 0u) << "two units of one request are one touch";
  ASSERT_TRUE(store_->ReadUnits("default", two, &units).ok());
  EXPECT_EQ(Count("promotions"), 1u);
  EXPECT_EQ(Count("dram_extents"), 1u) << "that extent, not the segment";
  const uint64_t ssd_reads = Count("ssd_unit_reads");
  for (uint32_t unit = 0; unit < 4; ++unit) ASSERT_TRUE(ReadUnit({segment->key, 0}, unit).ok());
  EXPECT_EQ(Count("ssd_unit_reads"), ssd_reads);
}

// Promise 6, DRAM: readers that hold all of it do not stop puts, which then stay only on SSD.
TEST_F(PageStoreTiersTest, Promise6APutWithoutRoomInDramIsKeptOnSsd) {
  options_.dram_bytes = 16 * 32768;
  Open();
  std::vector<UnitBytes> held;
  std::vector<UnitBytes> units;
  const auto chain = PutTestChain(*store_, spec_, 1, 8);
  for (const TestSegment& segment : *chain) {
    ASSERT_TRUE(store_->ReadUnits("default", AllUnits(spec_, segment.key, 8), &units).ok());
    held.insert(held.end(), units.begin(), units.end());
  }
  EXPECT_EQ(Count("dram_bytes_used"), options_.dram_bytes);
  const auto extra = PutTestSegment(*store_, spec_, 100);
  ASSERT_TRUE(extra.ok()) << extra.status();
  EXPECT_EQ(Count("dram_refused"), 2u);
  EXPECT_EQ(*ReadSegment(*store_, spec_, *extra), extra->payload);
  EXPECT_EQ(*ReadSegment(*store_, spec_, *extra), extra->payload);
  EXPECT_EQ(Count("promotions_refused"), 2u);
  for (const TestSegment& segment : *chain) {
    EXPECT_EQ(*ReadSegment(*store_, spec_, segment), segment.payload);
  }
}

TEST_F(PageStoreTiersTest, PinnedSegmentsComeToDramAndStayThere) {
  const auto chain = PutTestChain(*store_, spec_, 1, 40);
  ASSERT_TRUE(chain.ok()) << chain.status();
  Open();  // DRAM is empty
  const std::vector<SegmentKey> keys = {(*chain)[0].key, (*chain)[1].key};
  ASSERT_TRUE(store_->PinSegments("default", keys).ok());
  EXPECT_EQ(Count("dram_extents"), 4u);
  ASSERT_TRUE(PutTestChain(*store_, spec_, 1000, 40).ok());
  const uint64_t ssd_reads = Count("ssd_unit_reads");
  EXPECT_EQ(*ReadSegment(*store_, spec_, (*chain)[1]), (*chain)[1].payload);
  EXPECT_EQ(Count("ssd_unit_reads"), ssd_reads);
  ASSERT_TRUE(store_->UnpinSegments("default", keys).ok());
  EXPECT_EQ(Count("dram_bytes_pinned"), 0u);
  EXPECT_EQ(store_->UnpinSegments("default", keys).code(), StatusCode::kNotFound);
}

TEST_F(PageStoreTiersTest, Promise6PinsAreBoundedAndAllOfARequestOrNone) {
  const auto chain = PutTestChain(*store_, spec_, 1, 9);
  std::vector<SegmentKey> keys;
  for (const TestSegment& segment : *chain) keys.push_back(segment.key);
  EXPECT_EQ(store_->PinSegments("default", keys).code(), StatusCode::kResourceExhausted)
      << "64 KiB each, and half of 1 MiB may be pinned";
  EXPECT_EQ(Count("dram_bytes_pinned"), 0u);
  keys.resize(3);
  keys[2] = SegmentKey{};
  EXPECT_EQ(store_->PinSegments("default", keys).code(), StatusCode::kNotFound);
  EXPECT_EQ(Count("dram_bytes_pinned"), 0u);
  keys.resize(2);
  ASSERT_TRUE(store_->PinSegments("default", keys).ok());
  EXPECT_EQ(store_->PinSegments("nobody", keys).code(), StatusCode::kNotFound);
  ASSERT_TRUE(store_->DeleteSegment("default", keys[0]).ok());
  EXPECT_EQ(Count("dram_bytes_pinned"), 2 * SegmentBytes(spec_, 2)) << "a pin holds its segment";
  ASSERT_TRUE(store_->UnpinSegments("default", {{keys[0]}}).ok());
  EXPECT_EQ(Count("dram_bytes_pinned"), SegmentBytes(spec_, 2));
  EXPECT_EQ(store_->Tokens("default", keys[0]).status().code(), StatusCode::kNotFound);
}

TEST_F(PageStoreTiersTest, ATenantOverItsDramQuotaIsServedFromSsd) {
  options_.tenant_dram_quota_bytes["default"] = 4 * 32768;
  Open();
  const auto chain = PutTestChain(*store_, spec_, 1, 8);
  ASSERT_TRUE(chain.ok()) << chain.status();
  EXPECT_EQ(Count("dram_bytes_used"), 4u * 32768);
  for (const TestSegment& segment : *chain) {
    EXPECT_EQ(*ReadSegment(*store_, spec_, segment), segment.payload);
  }
  options_.tenant_dram_quota_bytes["default"] = 0;
  Open();
  const auto other = PutTestSegment(*store_, spec_, 100);
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(Count("dram_extents"), 0u);
  EXPECT_EQ(*ReadSegment(*store_, spec_, *other), other->payload);
}

// Promise 2: bytes that fail their checksum are never returned; the reader gets DATA_LOSS.
TEST_F(PageStoreTiersTest, Promise2FlippedBitsOnSsdAreDataLossAndTheRestIsReadable) {
  const auto segment = PutTestSegment(*store_, spec_, 1);
  Open();
  const ExtentId id{segment->key, 1};
  std::string value = StoredUnit(id, 2);
  for (const size_t at : {size_t{0}, value.size() / 2, value.size() - 1}) {
    std::string flipped = value;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x10);
    Overwrite(id, 2, flipped);
    EXPECT_EQ(ReadUnit(id, 2).code(), StatusCode::kDataLoss) << "byte " << at;
    EXPECT_TRUE(ReadUnit(id, 1).ok()) << "its neighbour is whole";
  }
  Overwrite(id, 2, value);
  EXPECT_TRUE(ReadUnit(id, 2).ok()) << "whole again";
}

TEST_F(PageStoreTiersTest, Promise2ADamagedExtentRecordIsDataLossUntilTheSegmentIsPutAgain) {
  const auto segment = PutTestSegment(*store_, spec_, 1);
  Open();
  OverwriteRecord(Table::kExtents, SsdTier::RecordKey({segment->key, 0}), "not a record");
  EXPECT_EQ(ReadUnit({segment->key, 0}, 0).code(), StatusCode::kDataLoss);
  EXPECT_TRUE(ReadUnit({segment->key, 1}, 0).ok());
  Open();
  EXPECT_EQ(Count("ssd_extents_dropped"), 1u);
  EXPECT_EQ(ReadUnit({segment->key, 0}, 0).code(), StatusCode::kNotFound) << "it is a miss now";
  ASSERT_TRUE(PutTestSegment(*store_, spec_, 1).ok());
  EXPECT_EQ(*ReadSegment(*store_, spec_, *segment), segment->payload);
}

TEST_F(PageStoreTiersTest, Promise2AVolumeCutByHandIsDataLossAndTheRestIsReadable) {
  const auto chain = PutTestChain(*store_, spec_, 1, 8);
  const ExtentId last{chain->back().key, 1};
  const auto [path, offset] = PlaceOf(last, 3);
  store_.reset();
  std::filesystem::resize_file(path, offset);
  Open();
  EXPECT_GT(Count("ssd_bytes_lost"), 0u);
  EXPECT_EQ(ReadUnit(last, 3).code(), StatusCode::kDataLoss);
  EXPECT_EQ(*ReadSegment(*store_, spec_, chain->front()), chain->front().payload);
  ASSERT_TRUE(PutTestSegment(*store_, spec_, 8, (*chain)[6].key).ok());
  EXPECT_EQ(*ReadSegment(*store_, spec_, chain->back()), chain->back().payload) << "repaired";
}

TEST_F(PageStoreTiersTest, SpaceOfDeletedSegmentsIsUsedAgain) {
  for (uint64_t seed = 0; seed < 200; ++seed) {  // 12.5 MiB through volumes of 1 MiB
    const auto segment = PutTestSegment(*store_, spec_, seed);
    ASSERT_TRUE(segment.ok()) << segment.status();
    ASSERT_TRUE(store_->DeleteSegment("default", segment->key).ok());
  }
  EXPECT_EQ(Count("payload_volume_bytes"), kTestVolumeBytes);
  EXPECT_EQ(Count("ssd_bytes_used"), 0u);
}

TEST_F(PageStoreTiersTest, Promise2AUnitInAnotherOnesPlaceIsDataLoss) {
  const auto segment = PutTestSegment(*store_, spec_, 1);
  Open();
  Overwrite({segment->key, 0}, 0, StoredUnit({segment->key, 0}, 1));
  EXPECT_EQ(ReadUnit({segment->key, 0}, 0).code(), StatusCode::kDataLoss)
      << "whole by its own checksum, but not the bytes that were put there";
}

TEST_F(PageStoreTiersTest, ADamagedExtentIsNotPromoted) {
  const auto segment = PutTestSegment(*store_, spec_, 1);
  Open();
  Overwrite({segment->key, 0}, 3, "damaged");
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(ReadUnit({segment->key, 0}, 0).ok());
  EXPECT_EQ(Count("dram_extents"), 0u);
}

// Promise 8, the store's part: a lost segment can be computed and put again.
TEST_F(PageStoreTiersTest, PuttingADamagedSegmentAgainRepairsIt) {
  const auto segment = PutTestSegment(*store_, spec_, 1);
  Open();
  Overwrite({segment->key, 0}, 3, "damaged");
  EXPECT_EQ(store_->Lookup("default", spec_, segment->tokens)->size(), 1u);
  EXPECT_EQ(ReadUnit({segment->key, 0}, 3).code(), StatusCode::kDataLoss);
  EXPECT_EQ(store_->Lookup("default", spec_, segment->tokens)->size(), 0u)
      << "known to be damaged, it counts as missing";
  ASSERT_TRUE(PutTestSegment(*store_, spec_, 1).ok());
  EXPECT_EQ(*ReadSegment(*store_, spec_, *segment), segment->payload);
  EXPECT_EQ(Count("segments_repaired"), 1u);
  EXPECT_EQ(Count("segments_damaged"), 0u);
  EXPECT_EQ(Count("ssd_bytes_used"), segment->payload.size());
  Open();
  EXPECT_EQ(*ReadSegment(*store_, spec_, *segment), segment->payload);
}

TEST_F(PageStoreTiersTest, ADamagedRecordIsDataLossUntilTheSegmentIsPutAgain) {
  const auto segment = PutTestSegment(*store_, spec_, 1);
  OverwriteRecord(Table::kSegments, std::string(segment->key.view()), "not a record");
  Open();
  EXPECT_EQ(ReadUnit({segment->key, 0}, 0).code(), StatusCode::kDataLoss);
  EXPECT_EQ(store_->ResolveChain("default", segment->key).status().code(), StatusCode::kDataLoss);
  ASSERT_TRUE(PutTestSegment(*store_, spec_, 1).ok());
  EXPECT_EQ(*ReadSegment(*store_, spec_, *segment), segment->payload);
  EXPECT_EQ(Count("segments"), 1u);
}

TEST_F(PageStoreTiersTest, DigestsOfAPutThatAreDamagedAreMadeAnewAndKept) {
  const auto segment = PutTestSegment(*store_, spec_, 1);
  const auto read = [&] {
    const auto digests = store_->ReadDigests("default", segment->key, 0);
    EXPECT_TRUE(digests.ok()) << digests.status();
    return *digests->bytes;
  };
  const std::vector<std::byte> put = read();
  Overwrite({segment->key, kDigestsLayer}, 0, "damaged");
  Open();
  EXPECT_EQ(read(), put);
  EXPECT_EQ(Count("digests_damaged"), 1u);
  EXPECT_EQ(Count("digests_mended"), 1u);
  Open();
  EXPECT_EQ(read(), put);
  EXPECT_EQ(Count("digests_mended"), 0u) << "they were kept";
  OverwriteRecord(Table::kDigests, DigestStore::KeyOf({{segment->key, 0}}), "damaged");
  Open();
  EXPECT_EQ(read(), put);
  EXPECT_EQ(Count("digests_mended"), 1u);
  EXPECT_EQ(Count("segments_damaged"), 0u) << "its units are as they were put";
}

TEST_F(PageStoreTiersTest, DigestsOfAnOlderServerAreRowsAndAreRead) {
  const auto segment = PutTestSegment(*store_, spec_, 1);
  const auto digests = *store_->ReadDigests("default", segment->key, 1)->bytes;
  const uint32_t crc32c = Crc32c(digests);
  Database::Batch batch = store_->database().NewBatch();
  batch.Delete(Table::kExtents, SsdTier::RecordKey({segment->key, kDigestsLayer}));
  batch.Put(Table::kDigests, DigestStore::KeyOf({{segment->key, 1}}),
            {AsText(digests), AsText(EncodeTrailer(crc32c))});
  ASSERT_TRUE(store_->database().Commit(batch, /*sync=*/true).ok());
  std::ofstream(dir_ / "FORMAT") << "quire-data-format 2\n";
  Open();
  EXPECT_EQ(*store_->ReadDigests("default", segment->key, 1)->bytes, digests);
  EXPECT_EQ(Count("digests_mended"), 0u);
}

TEST_F(PageStoreTiersTest, ARowOfDigestsGoesWhenItsSegmentIsReplaced) {
  const auto segment = PutTestSegment(*store_, spec_, 1);
  const auto digests = *store_->ReadDigests("default", segment->key, 0)->bytes;
  const std::vector<std::byte> others(digests.size());
  const uint32_t crc32c = Crc32c(others);
  OverwriteRecord(Table::kDigests, DigestStore::KeyOf({{segment->key, 0}}),
                  std::string(AsText(others)) + std::string(AsText(EncodeTrailer(crc32c))));
  OverwriteRecord(Table::kSegments, std::string(segment->key.view()), "not a record");
  Open();
  ASSERT_TRUE(PutTestSegment(*store_, spec_, 1).ok());
  EXPECT_EQ(*store_->ReadDigests("default", segment->key, 0)->bytes, digests);
}

TEST_F(PageStoreTiersTest, DerivedDigestsThatAreDamagedOrOfOtherUnitsAreMadeAnew) {
  const kernels::DigestKind kind = kernels::DigestKind::kCentreRadius;
  const auto one = PutTestSegment(*store_, spec_, 1);
  const auto two = PutTestSegment(*store_, spec_, 2);
  const auto key_of = [&](const TestSegment& segment) {
    std::string key(segment.key.view());
    key.append(4, '\0');
    return key + static_cast<char>(kind);
  };
  const auto read = [&](const TestSegment& segment) {
    const auto digests = store_->ReadDigests("default", segment.key, 0, kind);
    EXPECT_TRUE(digests.ok()) << digests.status();
    return *digests->bytes;
  };
  const auto of_one = read(*one), of_two = read(*two);
  const std::string kept = *store_->database().Get(Table::kDigests, key_of(*one));
  OverwriteRecord(Table::kDigests, key_of(*one), "damaged");
  OverwriteRecord(Table::kDigests, key_of(*two), kept);  // Intact, but of other units.
  Open();
  EXPECT_EQ(read(*one), of_one);
  EXPECT_EQ(read(*two), of_two);
  EXPECT_EQ(Count("digests_derived"), 2u);
  EXPECT_EQ(*store_->database().Get(Table::kDigests, key_of(*one)), kept);
}

TEST_F(PageStoreTiersTest, ADamagedSaltIsNotReplacedInSilence) {
  OverwriteRecord(Table::kTenants, "default", "damaged");
  store_.reset();
  EXPECT_EQ(PageStoreImpl::Open(options_, {}).status().code(), StatusCode::kDataLoss);
}

// Promise 3: acknowledged segments survive closing and reopening the server.
TEST_F(PageStoreTiersTest, Promise3EverythingIsThereAfterReopening) {
  const auto chain = PutTestChain(*store_, spec_, 1, 5, Durability::kPersisted);
  const auto tail = PutTestSegment(*store_, spec_, 9, chain->back().key, 3, Durability::kMemory);
  const auto digests = *store_->ReadDigests("default", tail->key, 1)->bytes;
  Open();
  const auto resolved = store_->ResolveChain("default", tail->key);
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  EXPECT_EQ((*resolved)->keys.size(), 6u);
  for (const TestSegment& segment : *chain) {
    EXPECT_EQ(*ReadSegment(*store_, spec_, segment), segment.payload);
  }
  EXPECT_EQ(*ReadSegment(*store_, spec_, *tail), tail->payload);
  EXPECT_EQ(*store_->ReadDigests("default", tail->key, 1)->bytes, digests);
  EXPECT_EQ(PutTestSegment(*store_, spec_, 1)->key, chain->front().key) << "the same salt";
}

TEST_F(PageStoreTiersTest, AFullDiskRefusesPutsKeepsReadingAndRecovers) {
  const auto before = PutTestSegment(*store_, spec_, 1);
  for (const Fault fault : {Fault::kNoSpace, Fault::kTornNoSpace}) {
    env_.faults.fault = fault;
    const auto refused = PutTestSegment(*store_, spec_, 2, before->key);
    EXPECT_EQ(refused.status().code(), StatusCode::kResourceExhausted) << refused.status();
    EXPECT_NE(Message(refused.status()).find("free space"), std::string_view::npos);
    EXPECT_EQ(*ReadSegment(*store_, spec_, *before), before->payload);
    EXPECT_EQ(Count("segments"), 1u);
    EXPECT_EQ(Count("ssd_bytes_used"), before->payload.size()) << "the reservation is given back";
    EXPECT_EQ(store_->Lookup("default", spec_, MakeTokens(8, 1))->size(), 1u);
    env_.faults.fault = Fault::kNone;
  }
  const auto after = PutTestSegment(*store_, spec_, 2, before->key, 0, Durability::kPersisted);
  ASSERT_TRUE(after.ok()) << after.status();
  Open();
  EXPECT_EQ(*ReadSegment(*store_, spec_, *before), before->payload);
  EXPECT_EQ(*ReadSegment(*store_, spec_, *after), after->payload);
  EXPECT_EQ(Count("segments"), 2u);
}

TEST_F(PageStoreTiersTest, APutIsRefusedBeforeTheDiskIsFull) {
  env_.faults.free_bytes = 1 << 20;
  const auto refused = PutTestSegment(*store_, spec_, 1);
  EXPECT_EQ(refused.status().code(), StatusCode::kResourceExhausted);
  EXPECT_NE(Message(refused.status()).find(dir_.path()), std::string_view::npos);
  EXPECT_EQ(Count("db_commit_failures"), 0u) << "the database was not even asked";
}

TEST_F(PageStoreTiersTest, ADeleteThatIsNotWrittenIsNotAcknowledged) {
  const auto segment = PutTestSegment(*store_, spec_, 1);
  ASSERT_TRUE(segment.ok()) << segment.status();
  env_.faults.fault = Fault::kNoSpaceForFiles;
  const std::string mebibyte(1 << 20, 'x');
  Status written;
  for (int i = 0; written.ok(); ++i) {  // Until the next buffer's log cannot be created.
    ASSERT_LT(i, 256);
    Database::Batch batch = store_->database().NewBatch();
    batch.Put(Table::kMetadata, "filler" + std::to_string(i), {mebibyte});
    written = store_->database().Commit(batch, /*sync=*/false);
  }
  env_.faults.fault = Fault::kNone;
  for (int i = 0; i < 2; ++i) {
    const Status deleted = store_->DeleteSegment("default", segment->key);
    EXPECT_EQ(deleted.code(), StatusCode::kUnavailable) << deleted;
  }
  EXPECT_FALSE(store_->Sweep().ok());
  Open();
  EXPECT_EQ(*ReadSegment(*store_, spec_, *segment), segment->payload);
  EXPECT_TRUE(store_->DeleteSegment("default", segment->key).ok());
}

TEST_F(PageStoreTiersTest, AReadOnlyDataDirectoryIsAClearError) {
  store_.reset();
  env_.faults.fault = Fault::kReadOnly;
  const Status status = PageStoreImpl::Open(options_, {.env = env_.env.get()}).status();
  EXPECT_FALSE(status.ok());
  EXPECT_NE(Message(status).find(dir_.path()), std::string_view::npos) << status;
  EXPECT_NE(Message(status).find("Read-only"), std::string_view::npos) << status;
}

TEST_F(PageStoreTiersTest, ADirectoryInUseIsRefused) {
  const Status status = PageStoreImpl::Open(options_, {}).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(Message(status).find("in use"), std::string_view::npos);
}

}  // namespace
}  // namespace quire::kvserver::testing
