// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/metadata/tenant_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "kvserver/store/page_store.h"
#include "kvserver/store/testing/store_kit.h"
#include "tests/kit/temp_dir.h"

namespace quire::kvserver {
namespace {

using ::testing::HasSubstr;

/// Servers that came to salts already.
class Salts {
 public:
  StatusOr<TenantSalts> Agree(const std::vector<std::string>& tenants, const TenantSalts& stored) {
    if (is_away) return Unavailable("etcd is away");
    for (const std::string& tenant : tenants) {
      const auto known = stored.find(tenant);
      if (known != stored.end()) agreed.insert(*known);
      agreed.try_emplace(tenant, TenantSalt{static_cast<uint8_t>(agreed.size() + 1)});
    }
    return agreed;
  }
  TenantSalts agreed;
  bool is_away = false;
};

class TenantDirectoryTest : public ::testing::Test {
 protected:
  /// Opens a disk, with the cluster's salts or alone.
  StatusOr<std::unique_ptr<PageStore>> Open(const std::string& disk, bool in_cluster = true) {
    PageStore::Options options{.ssd_path = dir_ / disk, .dram_bytes = 1 << 20};
    if (in_cluster) {
      options.agree_on_salts = [this](const auto& tenants, const auto& stored) {
        return salts_.Agree(tenants, stored);
      };
    }
    return PageStore::Open(options);
  }
  /// Key of the same segment on this disk.
  SegmentKey KeyOn(const std::string& disk, bool in_cluster = true) {
    const auto store = Open(disk, in_cluster);
    EXPECT_TRUE(store.ok()) << store.status();
    return testing::PutTestSegment(**store, testing::SmallSpec(), 1)->key;
  }

  quire::testing::TempDir dir_;
  Salts salts_;
};

TEST_F(TenantDirectoryTest, DisksOfAClusterMakeTheSameKeys) {
  const SegmentKey key = KeyOn("a");
  EXPECT_EQ(KeyOn("b"), key);
  EXPECT_NE(KeyOn("c", /*in_cluster=*/false), key);
  EXPECT_EQ(KeyOn("a", /*in_cluster=*/false), key) << "the disk keeps the salt";
}

TEST_F(TenantDirectoryTest, TheFirstDiskDecides) {
  const SegmentKey key = KeyOn("a", /*in_cluster=*/false);
  EXPECT_EQ(KeyOn("a"), key);
  EXPECT_EQ(KeyOn("b"), key);
}

TEST_F(TenantDirectoryTest, ADiskWithSegmentsOfAnotherSaltIsRefused) {
  KeyOn("a");
  KeyOn("b", /*in_cluster=*/false);
  const Status refused = Open("b").status();
  EXPECT_TRUE(IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(Message(refused)), HasSubstr("empty data directory"));
  EXPECT_TRUE(Open("b", /*in_cluster=*/false).ok()) << "nothing was changed";
}

TEST_F(TenantDirectoryTest, ADiskWithoutSegmentsTakesTheAgreedSalt) {
  const SegmentKey key = KeyOn("a");
  ASSERT_TRUE(Open("b", /*in_cluster=*/false).ok());
  EXPECT_EQ(KeyOn("b"), key);
}

TEST_F(TenantDirectoryTest, WithoutAnAgreementOnlyADiskWithAllSaltsOpens) {
  const SegmentKey key = KeyOn("a");
  salts_.is_away = true;
  EXPECT_EQ(KeyOn("a"), key);
  const Status refused = Open("b").status();
  EXPECT_TRUE(IsUnavailable(refused)) << refused;
  EXPECT_THAT(std::string(Message(refused)), HasSubstr("start the server again"));
}

}  // namespace
}  // namespace quire::kvserver
