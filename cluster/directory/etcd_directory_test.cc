// SPDX-License-Identifier: Apache-2.0
#include "cluster/directory/etcd_directory.h"

#include <string>

#include "cluster/directory/etcd_collections.h"
#include "cluster/directory/tenant_salts.h"
#include "cluster/directory/testing/directory_conformance.h"
#include "cluster/etcd/etcd_requests.h"
#include "cluster/etcd/testing/etcd_front.h"
#include "cluster/etcd/testing/etcd_process.h"

namespace quire::cluster::testing {
namespace {

/// A commit of a busy machine may take seconds.
std::unique_ptr<EtcdClient> Connect(const std::string& address,
                                    Duration call_timeout = std::chrono::seconds(10)) {
  return EtcdClient::Create({.endpoints = {address}, .call_timeout = call_timeout}).value();
}

/// Directories of several clusters share one etcd.
class EtcdHarness final : public DirectoryHarness {
 public:
  explicit EtcdHarness(const EtcdProcess* etcd) : etcd_(*etcd), client_(Connect(etcd->address())) {}

  DocumentAgreement& agreement() override { return directory_; }
  DirectoryFeed& feed() override { return directory_; }
  void ForgetChanges() override { etcd_.Compact(); }

 private:
  static std::string NextName() {
    static int number = 0;
    return "c" + std::to_string(++number);
  }

  const EtcdProcess& etcd_;
  const std::unique_ptr<EtcdClient> client_;
  EtcdDirectory directory_{client_.get(), NextName()};
};

std::unique_ptr<DirectoryHarness> MakeEtcd() {
  static const EtcdProcess etcd;
  return std::make_unique<EtcdHarness>(&etcd);
}

INSTANTIATE_TEST_SUITE_P(Etcd, DirectoryConformanceTest, ::testing::Values(&MakeEtcd));

class EtcdDirectoryTest : public ::testing::Test {
 protected:
  static Document Version(uint64_t version) {
    Document document{.name = {"books", "a", version}};
    document.chain_tip.bytes[0] = static_cast<uint8_t>(version);
    return document;
  }

  EtcdProcess etcd_;
  const std::unique_ptr<EtcdClient> client_ = Connect(etcd_.address());
  EtcdDirectory directory_{client_.get(), "demo"};
};

TEST_F(EtcdDirectoryTest, ALostReplyDoesNotChangeTwice) {
  EtcdFront front(etcd_.address());
  const auto client = Connect(front.address());
  EtcdDirectory behind_front(client.get(), "demo");
  front.replies_to_lose = 1;
  ASSERT_TRUE(behind_front.Publish("t", Version(1), false).ok());
  EXPECT_EQ(directory_.Read("t", {"books", "a"})->versions.size(), 1u);
}

TEST_F(EtcdDirectoryTest, AnEtcdThatIsAwayIsUnavailableAndKeepsWhatItHad) {
  ASSERT_TRUE(directory_.Publish("t", Version(1), false).ok());
  const auto hasty = Connect(etcd_.address(), std::chrono::seconds(1));
  EtcdDirectory away(hasty.get(), "demo");
  etcd_.Kill();
  EXPECT_TRUE(IsUnavailable(away.Publish("t", Version(2), false).status()));
  EXPECT_TRUE(IsUnavailable(away.Read("t", {"books", "a"}).status()));
  EXPECT_TRUE(IsUnavailable(away.Scan("", 1).status()));
  EXPECT_TRUE(IsUnavailable(
      away.Changes(1, SystemClock().Now() + std::chrono::milliseconds(500)).status()));
  etcd_.Start();
  const auto read = directory_.Read("t", {"books", "a"});
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->latest, 1u);
}

TEST_F(EtcdDirectoryTest, AnEtcdThatLostItsDataIsNotFollowed) {
  uint64_t since = 0;
  for (uint64_t version = 1; version <= 3; ++version) {
    since = directory_.Publish("t", Version(version), false)->revision;
  }
  etcd_.Kill();
  etcd_.LoseData();
  etcd_.Start();
  EXPECT_EQ(
      directory_.Changes(since, SystemClock().Now() + std::chrono::seconds(20)).status().code(),
      StatusCode::kOutOfRange);
}

TEST_F(EtcdDirectoryTest, TheFirstNodeDecidesOnASalt) {
  const std::vector<std::string> tenants = {"t", "u"};
  const TenantSalts stored = {{"t", TenantSalt{7}}};
  const auto first = AgreeOnSalts(client_.get(), "demo", tenants, stored);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->at("t"), TenantSalt{7});
  EXPECT_NE(first->at("u"), TenantSalt());
  const TenantSalts others = {{"t", TenantSalt{8}}, {"u", TenantSalt{9}}};
  EXPECT_EQ(AgreeOnSalts(client_.get(), "demo", tenants, others).value(), *first);
  EXPECT_NE(AgreeOnSalts(client_.get(), "other", tenants, {}).value(), *first);
  const auto hasty = Connect(etcd_.address(), std::chrono::seconds(1));
  etcd_.Kill();
  EXPECT_TRUE(IsUnavailable(AgreeOnSalts(hasty.get(), "demo", tenants, others).status()));
}

TEST_F(EtcdDirectoryTest, SettingsOfCollectionsAreFollowed) {
  EtcdCollections collections(client_.get(), "demo");
  const uint64_t begin = collections.ChangedSince(0)->revision;
  ASSERT_TRUE(collections.Change("t", "books", {.codec = "int8"}).ok());
  const auto both = collections.Change("t", "books", {.ttl_seconds = 60});
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ(both->codec, "int8");
  const auto changed = collections.ChangedSince(begin);
  ASSERT_TRUE(changed.ok()) << changed.status();
  ASSERT_EQ(changed->changed.size(), 1u);
  EXPECT_EQ(changed->changed[0].tenant, "t");
  EXPECT_EQ(changed->changed[0].settings.name, "books");
  EXPECT_EQ(changed->changed[0].settings.codec, "int8");
  EXPECT_EQ(changed->changed[0].settings.ttl_seconds, 60u);
  EXPECT_TRUE(collections.ChangedSince(changed->revision)->changed.empty());
  ASSERT_TRUE(collections.Change("t", "books", {.codec = "", .ttl_seconds = 0}).ok());
  const auto reset = collections.ChangedSince(changed->revision);
  ASSERT_EQ(reset->changed.size(), 1u) << "it stays, at the defaults";
  EXPECT_TRUE(reset->changed[0].settings.codec_is_default);
  EXPECT_FALSE(reset->changed[0].settings.ttl_seconds);
}

TEST_F(EtcdDirectoryTest, AnUnreadableRecordIsToldAndStopsNoOther) {
  etcdserverpb::TxnRequest txn;
  AddPut(txn, DocumentsPrefix("demo") + "t/books/a", "{\"latest\": 3}");
  ASSERT_TRUE(client_->Commit(txn).ok());
  Document other = Version(1);
  other.name.name = "b";
  ASSERT_TRUE(directory_.Publish("t", other, false).ok());
  EXPECT_EQ(directory_.Read("t", {"books", "a"}).status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(directory_.Publish("t", Version(1), false).status().code(), StatusCode::kDataLoss);
  const auto page = directory_.Scan("", 10);
  ASSERT_EQ(page->entries.size(), 1u);
  EXPECT_EQ(page->entries[0].name.name, "b");
}

}  // namespace
}  // namespace quire::cluster::testing
