// SPDX-License-Identifier: Apache-2.0
//
// Objects: segments of bytes. They keep every promise of segments, and are caches.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/base/random.h"
#include "kvserver/store/page_store_impl.h"
#include "kvserver/store/policy/ssd_budget.h"
#include "kvserver/store/repair/fsck.h"
#include "kvserver/store/testing/memory_damage.h"
#include "kvserver/store/testing/page_store_fixture.h"
#include "kvserver/store/testing/volume_damage.h"

namespace quire::kvserver::testing {
namespace {

/// Bytes of an object and zeros to the end of its last unit.
std::vector<std::byte> MakeUnits(uint64_t size_bytes, uint64_t seed) {
  SeededRandom random(seed);
  std::vector<std::byte> units(ObjectShape::Of(size_bytes).stored_bytes());
  for (uint64_t i = 0; i < size_bytes; ++i) units[i] = static_cast<std::byte>(random.Next());
  return units;
}

class PageStoreObjectTest : public PageStoreTest {
 protected:
  // Slabs of a MiB: larger extents stay on SSD.
  PageStoreObjectTest() { options_.dram_bytes = 16 << 20; }
  StatusOr<PutSegmentResult> PutObject(const std::string& key, uint64_t size_bytes, uint64_t seed,
                                       Durability durability = Durability::kMemory,
                                       std::string_view tenant = "default", bool strict = false) {
    const std::vector<std::byte> units = MakeUnits(size_bytes, seed);
    const ObjectToStore object{key, size_bytes};
    PutSegmentArgs args;
    args.object = &object;
    args.payload = units;
    args.durability = durability;
    args.strict = strict;
    return store_->PutSegment(tenant, args);
  }
  StatusOr<std::vector<std::byte>> ReadObject(const std::string& key,
                                              std::string_view tenant = "default") {
    SegmentHold hold;
    QUIRE_ASSIGN_OR_RETURN(const StoredObjectStat object, store_->FindObject(tenant, key, &hold));
    const ObjectShape shape = ObjectShape::Of(object.size_bytes);
    std::vector<UnitAddress> addresses;
    for (uint32_t unit = 0; unit < shape.units(); ++unit) {
      addresses.push_back(
          {object.key, unit / shape.units_per_extent, unit % shape.units_per_extent});
    }
    std::vector<UnitBytes> units;
    QUIRE_RETURN_IF_ERROR(store_->ReadUnits(tenant, addresses, &units));
    for (const UnitBytes& unit : units) {
      if (!unit.Matches()) return DataLoss("a unit of ", key, " is damaged");
    }
    return Concatenate(units);
  }
  bool IsObject(const std::string& key) { return store_->FindObject("default", key, nullptr).ok(); }
  void ExpectRead(const std::string& key, uint64_t size_bytes, uint64_t seed) {
    const auto bytes = ReadObject(key);
    ASSERT_TRUE(bytes.ok()) << key << ": " << bytes.status();
    EXPECT_TRUE(*bytes == MakeUnits(size_bytes, seed)) << key;
  }
};

TEST(ObjectShapeTest, EverySizeIsCutIntoEqualUnitsWithLessThanAByteOfZerosForEach) {
  for (const uint64_t size :
       {uint64_t{1}, uint64_t{4095}, kObjectUnitBytes - 1, kObjectUnitBytes, kObjectUnitBytes + 1,
        3 * kObjectUnitBytes + 17, kObjectExtentBytes, kObjectExtentBytes + 1,
        5 * kObjectExtentBytes - 3, kMaxObjectBytes - 1, kMaxObjectBytes}) {
    const ObjectShape shape = ObjectShape::Of(size);
    EXPECT_LE(shape.unit_bytes, kObjectUnitBytes) << size;
    EXPECT_LE(shape.extent_bytes(), kObjectExtentBytes) << size;
    EXPECT_GE(shape.stored_bytes(), size);
    EXPECT_LT(shape.stored_bytes() - size, shape.units()) << size;
    EXPECT_GE(ObjectSlotBytes(shape.extent_bytes()), shape.extent_bytes());
    EXPECT_LE(ObjectSlotBytes(shape.extent_bytes()),
              std::max<uint64_t>(4096, shape.extent_bytes() * 5 / 4 + 4096));
    EXPECT_EQ(ObjectSlotBytes(shape.extent_bytes()) % 4096, 0u);
  }
}

TEST_F(PageStoreObjectTest, ObjectsOfAnySizeComeBackFromBothTiersAndAfterARestart) {
  const std::vector<uint64_t> sizes = {
      1, 100, 65536, 65537, 300001, (1 << 20) + 5, kObjectExtentBytes + 1};
  for (const uint64_t size : sizes) {
    const auto put = PutObject("object " + std::to_string(size), size, size);
    ASSERT_TRUE(put.ok()) << put.status();
    EXPECT_FALSE(put->existed);
  }
  for (int times = 0; times < 2; ++times) {
    for (const uint64_t size : sizes) ExpectRead("object " + std::to_string(size), size, size);
    EXPECT_EQ(store_->FindObject("default", "object 100", nullptr)->size_bytes, 100u);
    EXPECT_EQ(Count("segments"), sizes.size());
    Open();
  }
  EXPECT_TRUE(IsNotFound(store_->FindObject("default", "object", nullptr).status()));
  store_.reset();
  const auto report = Fsck(dir_.path(), {});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->clean()) << report->problems.front().what;
  EXPECT_EQ(report->cached_segments, sizes.size());
}

// Promise 1: the first bytes under a key stand.
TEST_F(PageStoreObjectTest, Promise1TheFirstBytesOfAnObjectStandUntilItIsDeleted) {
  ASSERT_TRUE(PutObject("a", 1000, 1).ok());
  const auto same = PutObject("a", 1000, 1);
  EXPECT_TRUE(same->existed && !same->differs);
  for (const uint64_t size : {1000u, 999u, 200000u}) {
    const auto other = PutObject("a", size, 2);
    ASSERT_TRUE(other.ok()) << other.status();
    EXPECT_TRUE(other->existed && other->differs) << size;
    EXPECT_EQ(PutObject("a", size, 2, Durability::kMemory, "default", true).status().code(),
              StatusCode::kAlreadyExists);
  }
  ExpectRead("a", 1000, 1);
  const uint64_t before = store_->FindObject("default", "a", nullptr)->incarnation;
  ASSERT_TRUE(store_->DeleteSegment("default", same->key).ok());
  EXPECT_FALSE(IsObject("a"));
  ASSERT_TRUE(PutObject("a", 200000, 2, Durability::kPersisted).ok());
  ExpectRead("a", 200000, 2);
  EXPECT_GT(store_->FindObject("default", "a", nullptr)->incarnation, before);
}

// Promise 7: tenants never share segments or names.
TEST_F(PageStoreObjectTest, Promise7ObjectsOfTenantsDoNotMeet) {
  ASSERT_TRUE(PutObject("a", 100, 1).ok());
  EXPECT_TRUE(IsNotFound(ReadObject("a", "other").status()));
  ASSERT_TRUE(PutObject("a", 100, 2, Durability::kMemory, "other").ok());
  ExpectRead("a", 100, 1);
  EXPECT_EQ(*ReadObject("a", "other"), MakeUnits(100, 2));
}

TEST_F(PageStoreObjectTest, AnObjectHasNeitherPagesNorDigests) {
  const SegmentKey key = PutObject("a", 100, 1)->key;
  EXPECT_TRUE(IsNotFound(store_->ResolveChain("default", key).status()));
  EXPECT_TRUE(IsNotFound(store_->Tokens("default", key).status()));
  EXPECT_TRUE(IsNotFound(store_->ReadDigests("default", key, 0).status()));
  EXPECT_TRUE(IsNotFound(store_->PutRepresentatives("default", key, {}).status()));
  EXPECT_TRUE(IsNotFound(PutTestSegment(*store_, spec_, 1, key).status())) << "as a parent";
}

TEST_F(PageStoreObjectTest, WhatIsNoObjectIsRefused) {
  const auto refused = [&](const std::string& key, uint64_t size_bytes, size_t payload_bytes) {
    const std::vector<std::byte> units(payload_bytes);
    const ObjectToStore object{key, size_bytes};
    PutSegmentArgs args;
    args.object = &object;
    args.payload = units;
    return store_->PutSegment("default", args).status();
  };
  EXPECT_TRUE(IsInvalidArgument(refused("", 1, 1)));
  EXPECT_TRUE(IsInvalidArgument(refused(std::string(kMaxObjectKeyBytes + 1, 'k'), 1, 1)));
  EXPECT_TRUE(IsInvalidArgument(refused("a", 0, 0)));
  EXPECT_TRUE(IsInvalidArgument(refused("a", kMaxObjectBytes + 1, 1)));
  EXPECT_TRUE(IsInvalidArgument(refused("a", 100, 99)));
  EXPECT_TRUE(refused(std::string(kMaxObjectKeyBytes, 'k'), 100, 100).ok());
}

TEST_F(PageStoreObjectTest, Promise2DamageIsMendedFromSsdAndALostObjectIsMissingUntilItIsPut) {
  store_.reset();
  auto opened = PageStoreImpl::Open(options_, {});
  ASSERT_TRUE(opened.ok()) << opened.status();
  PageStoreImpl& store = **opened;
  store_ = *std::move(opened);
  const SegmentKey key = PutObject("a", 200000, 1)->key;
  FlipBit(store.dram(), {key, 0}, 1);
  EXPECT_TRUE(IsDataLoss(ReadObject("a").status())) << "the reader finds it";
  const std::vector<ReportedUnit> reported = {{{key, 0, 1}, 0}};
  EXPECT_TRUE(store.Recheck("default", reported).ok());
  ExpectRead("a", 200000, 1);
  store.dram().Erase(key);
  OverwriteOnSsd(store.database(), dir_.path(), {key, 0}, 2, "damage");
  EXPECT_FALSE(ReadObject("a").ok());
  EXPECT_FALSE(IsObject("a"));
  EXPECT_FALSE(PutObject("a", 200000, 1)->existed);
  ExpectRead("a", 200000, 1);
}

// A full disk refuses nobody: what was used least recently leaves.
TEST_F(PageStoreObjectTest, ObjectsLeaveUnderPressureTheLeastRecentlyUsedFirst) {
  options_.ssd_bytes = SsdBudget::kLeastBytes;
  options_.ssd_volume_bytes = 256 << 20;
  Open();
  constexpr uint64_t kBytes = 512 << 10;
  ASSERT_TRUE(PutObject("used", kBytes, 0).ok());
  const uint64_t count = 4 * SsdBudget::kLeastBytes / kBytes;
  for (uint64_t i = 1; i <= count; ++i) {
    const auto put = PutObject(std::to_string(i), kBytes, i);
    ASSERT_TRUE(put.ok()) << i << ": " << put.status();
    ASSERT_TRUE(ReadObject("used").ok()) << i;
  }
  ExpectRead("used", kBytes, 0);
  EXPECT_FALSE(IsObject("1"));
  ExpectRead(std::to_string(count), kBytes, count);
  EXPECT_GT(Count("cached_evictions"), count / 2);
}

TEST_F(PageStoreObjectTest, ATenantsQuotaEvictsItsOwnObjectsOnly) {
  options_.tenant_ssd_quota_bytes = {{"other", 300000}};
  Open();
  ASSERT_TRUE(PutObject("a", 100000, 1).ok());
  for (uint64_t i = 0; i < 5; ++i) {
    ASSERT_TRUE(PutObject(std::to_string(i), 100000, i, Durability::kMemory, "other").ok());
  }
  ExpectRead("a", 100000, 1);
  EXPECT_FALSE(ReadObject("0", "other").ok());
  EXPECT_TRUE(ReadObject("4", "other").ok());
  EXPECT_EQ(PutObject("large", 400000, 1, Durability::kMemory, "other").status().code(),
            StatusCode::kResourceExhausted)
      << "it could never fit";
}

// With a write budget, objects beyond it are in DRAM alone, and missing once they have left it.
TEST_F(PageStoreObjectTest, ObjectsBeyondTheWriteBudgetAreLostWithDramAndPersistedOnesAreNot) {
  options_.dram_bytes = 1 << 20;
  options_.ssd_write_bytes_per_second = 1;
  options_.ssd_write_burst_bytes = 1;
  Open();
  ASSERT_TRUE(PutObject("kept", 50000, 1).ok());
  ASSERT_TRUE(PutObject("persisted", 50000, 2, Durability::kPersisted).ok());
  EXPECT_EQ(Count("puts_dram_only"), 1u);
  ExpectRead("kept", 50000, 1);
  Open();
  EXPECT_FALSE(IsObject("kept"));
  ExpectRead("persisted", 50000, 2);
  for (uint64_t i = 0; i < 40; ++i) ASSERT_TRUE(PutObject(std::to_string(i), 50000, i).ok());
  EXPECT_FALSE(IsObject("0")) << "its room in DRAM was needed";
  ExpectRead("39", 50000, 39);
  ASSERT_TRUE(PutObject("39", 50000, 39, Durability::kPersisted)->existed);
  Open();
  ExpectRead("39", 50000, 39);
}

TEST_F(PageStoreObjectTest, TheRecordOfAnObjectInDramAloneIsInMemoryAsFarAsThereIsRoom) {
  options_.ssd_write_bytes_per_second = 1;
  options_.ssd_write_burst_bytes = 1;
  options_.catalog_cache_bytes = 4000;
  Open();
  const uint64_t before = Count("db_commits");
  for (uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(PutObject(std::to_string(i), 5000, i).ok());
  EXPECT_EQ(Count("db_commits"), before);
  EXPECT_GT(Count("catalog_bytes_in_memory"), 0u);
  for (uint64_t i = 3; i < 30; ++i) ASSERT_TRUE(PutObject(std::to_string(i), 5000, i).ok());
  EXPECT_GT(Count("db_commits"), before);
  EXPECT_LT(Count("catalog_bytes_in_memory"), 2 * options_.catalog_cache_bytes);
  for (uint64_t i = 0; i < 30; ++i) ExpectRead(std::to_string(i), 5000, i);
  const auto again = PutObject("0", 5000, 100);
  EXPECT_TRUE(again->existed && again->differs);
  ASSERT_TRUE(store_->DeleteSegment("default", again->key).ok());
  EXPECT_FALSE(IsObject("0"));
  ASSERT_TRUE(PutObject("0", 5000, 100).ok());
  ExpectRead("0", 5000, 100);
}

TEST_F(PageStoreObjectTest, ObjectsThatLeftDramLeaveNothingInMemory) {
  options_.dram_bytes = 1 << 20;
  options_.ssd_write_bytes_per_second = 1;
  options_.ssd_write_burst_bytes = 1;
  Open();
  for (uint64_t i = 0; i < 100; ++i) ASSERT_TRUE(PutObject(std::to_string(i), 50000, i).ok());
  ASSERT_TRUE(PutObject("99", 50000, 99, Durability::kPersisted)->existed);
  const uint64_t before = Count("catalog_bytes_in_memory");
  const auto removed = store_->Sweep();
  ASSERT_TRUE(removed.ok()) << removed.status();
  EXPECT_GT(*removed, 50u);
  EXPECT_LT(Count("catalog_bytes_in_memory"), before / 2);
  ExpectRead("98", 50000, 98);
  ExpectRead("99", 50000, 99);
  ASSERT_TRUE(PutObject("0", 50000, 7).ok());
  ExpectRead("0", 50000, 7);
}

}  // namespace
}  // namespace quire::kvserver::testing
