// SPDX-License-Identifier: Apache-2.0
//
// Backups and restores of the registry over a real etcd.
#include "cluster/backup/registry_backup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "cluster/directory/etcd_collections.h"
#include "cluster/directory/etcd_directory.h"
#include "cluster/directory/tenant_salts.h"
#include "cluster/etcd/etcd_requests.h"
#include "cluster/etcd/testing/etcd_process.h"
#include "cluster/membership/cluster_admin.h"
#include "cluster/membership/etcd_member.h"
#include "cluster/membership/etcd_membership.h"
#include "tests/kit/temp_dir.h"

namespace quire::cluster {
namespace {

using ::testing::HasSubstr;

/// Revisions of an etcd that was never restored are below.
constexpr uint64_t kFirstEra = 1'000'000;

class RegistryBackupTest : public ::testing::Test {
 protected:
  static Document Version(const std::string& name, uint64_t version) {
    Document document{.name = {"books", name, version}};
    document.chain_tip.bytes[0] = static_cast<uint8_t>(version);
    return document;
  }
  EtcdMemberOptions NodeOptions(const std::string& name) {
    std::filesystem::create_directories(dir_ / name);
    return {.cluster_name = "demo",
            .data_dir = dir_ / name,
            .self = {.name = name, .address = "127.0.0.1:1"},
            .lease = std::chrono::seconds(3)};
  }
  std::unique_ptr<EtcdMember> Join(const std::string& name) {
    auto joined = EtcdMember::Join(client_.get(), NodeOptions(name));
    EXPECT_TRUE(joined.ok()) << joined.status();
    return *std::move(joined);
  }
  void LoseEtcd() {
    etcd_.Kill();
    etcd_.LoseData();
    etcd_.Start();
  }
  StatusOr<BackupResult> BackUp() { return BackUpRegistry(client_.get(), "demo", path_, {}); }
  StatusOr<BackupResult> Restore(const RestoreOptions& options = {}) {
    return RestoreRegistry(client_.get(), path_, options, {});
  }
  Status Publish(const std::string& name, uint64_t version) {
    return directory_.Publish("t", Version(name, version), false).status();
  }

  quire::testing::TempDir dir_;
  const std::string path_ = dir_ / "registry.backup";
  testing::EtcdProcess etcd_;
  const std::unique_ptr<EtcdClient> client_ =
      EtcdClient::Create({.endpoints = {etcd_.address()}, .call_timeout = std::chrono::seconds(10)})
          .value();
  EtcdDirectory directory_{client_.get(), "demo"};
  EtcdCollections collections_{client_.get(), "demo"};
  ClusterAdmin admin_{client_.get(), "demo"};
};

TEST_F(RegistryBackupTest, AnEtcdThatLostItsDataKnowsAllAgain) {
  EXPECT_EQ(BackUp().status().code(), StatusCode::kNotFound) << "no cluster yet";
  Join("a").reset();  // It leaves.
  ASSERT_TRUE(admin_.Change({.replicas = 3}).ok());
  for (int i = 0; i < 600; ++i) ASSERT_TRUE(Publish("n" + std::to_string(i), 1).ok());
  const auto salts = AgreeOnSalts(client_.get(), "demo", {"t"}, {});
  ASSERT_TRUE(collections_.Change("t", "books", {.codec = "int8"}).ok());
  const uint64_t before = directory_.Read("t", {"books", "n0"})->revision;
  uint64_t heard = 0;
  const auto backup =
      BackUpRegistry(client_.get(), "demo", path_, [&](uint64_t records) { heard += records; });
  ASSERT_TRUE(backup.ok()) << backup.status();
  EXPECT_EQ(backup->records, 600u + 5) << "names, record, settings, node, salt, collection";
  EXPECT_EQ(heard, backup->records);

  LoseEtcd();
  EXPECT_THAT(directory_.Read("t", {"books", "n0"}).status().ToString(),
              HasSubstr("restore the newest backup"));
  EXPECT_TRUE(IsUnavailable(Publish("n0", 2)));
  const auto restored = Restore();
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ(restored->records, backup->records);
  EXPECT_THAT(directory_.Read("t", {"books", "n0"}).status().ToString(),
              HasSubstr("has joined cluster demo again"));
  ASSERT_TRUE(directory_.era().Follow(client_.get()).ok());
  ASSERT_TRUE(collections_.era().Follow(client_.get()).ok());
  EXPECT_EQ(directory_.era().Get().cluster.min_protocol(), kRestoredClusterProtocol)
      << "older nodes would take revisions as they are";
  for (int i = 0; i < 600; i += 37) {
    const auto name = directory_.Read("t", {"books", "n" + std::to_string(i)});
    ASSERT_TRUE(name.ok() && name->latest == 1) << name.status();
    EXPECT_GT(name->revision, before) << "revisions never go back";
  }
  EXPECT_EQ(*AgreeOnSalts(client_.get(), "demo", {"t"}, {}), *salts);
  EXPECT_EQ(admin_.Read()->settings.replicas, 3u);
  EXPECT_EQ(collections_.ChangedSince(before)->changed.at(0).settings.codec, "int8");
  EXPECT_TRUE(directory_.HasLost(backup->header.revision() + 1));
  EXPECT_FALSE(directory_.HasLost(before));
  EXPECT_EQ(directory_.Changes(before, TimePoint::min()).status().code(), StatusCode::kOutOfRange);
  const uint64_t now = directory_.Scan("", 1)->revision;
  ASSERT_TRUE(Publish("n0", 2).ok());
  const auto changes = directory_.Changes(now, TimePoint::min());
  ASSERT_TRUE(changes.ok() && changes->entries.size() == 1) << changes.status();
  EXPECT_EQ(changes->entries[0].agreed.latest, 2u);
}

TEST_F(RegistryBackupTest, MembersGoOnAndThoseOfAfterTheBackupToo) {
  auto a = Join("a");
  EtcdMembership membership(client_.get(), "demo");
  const auto sees = [&](const std::string& node) {
    return [node](const ClusterView& view) {
      const Member* const member = view.Find(node);
      return member != nullptr && member->state == MemberState::kUp;
    };
  };
  ASSERT_TRUE(sees("a")(*membership.WaitFor(sees("a"), std::chrono::seconds(20))));
  ASSERT_TRUE(BackUp().ok());
  auto late = Join("late");
  ASSERT_TRUE(sees("late")(*membership.WaitFor(sees("late"), std::chrono::seconds(20))));
  LoseEtcd();
  ASSERT_TRUE(Restore().ok());
  // Both enter again by themselves once they find their leases gone.
  const auto both = [&](const ClusterView& view) {
    return sees("a")(view) && sees("late")(view) && view.epoch > kFirstEra;
  };
  EXPECT_TRUE(both(*membership.WaitFor(both, std::chrono::seconds(20))));
  EXPECT_TRUE(membership.Frozen().ok()) << membership.Frozen();
  a.reset();
  late.reset();
  late = Join("late");
  EXPECT_TRUE(late->Standing().ok()) << "its disk is known";
}

TEST_F(RegistryBackupTest, WhatIsNotMeantIsRefused) {
  auto a = Join("a");
  ASSERT_TRUE(Publish("n", 1).ok());
  ASSERT_TRUE(BackUp().ok());
  EXPECT_EQ(Restore().status().code(), StatusCode::kFailedPrecondition) << "a is up";
  a.reset();
  const Status there = Restore().status();
  EXPECT_EQ(there.code(), StatusCode::kAlreadyExists);
  EXPECT_THAT(there.ToString(), HasSubstr("--replace"));
  EXPECT_THAT(Restore({.cluster_name = "other"}).status().ToString(),
              HasSubstr("of cluster demo, not of other"));
  ASSERT_TRUE(Publish("later", 1).ok());
  ASSERT_TRUE(Restore({.replace = true}).ok());
  ASSERT_TRUE(directory_.era().Follow(client_.get()).ok());
  EXPECT_FALSE(directory_.Read("t", {"books", "later"})->exists());
  EXPECT_TRUE(directory_.Read("t", {"books", "n"})->exists());

  LoseEtcd();
  std::filesystem::remove_all(dir_ / "a");
  Join("a").reset();  // Founds another cluster of this name.
  EXPECT_THAT(Restore({.replace = true}).status().ToString(), HasSubstr("another cluster"));
  EXPECT_EQ(admin_.Read()->members.size(), 1u) << "nothing was changed";
}

TEST_F(RegistryBackupTest, ADamagedBackupChangesNothing) {
  Join("a").reset();
  ASSERT_TRUE(Publish("n", 1).ok());
  ASSERT_TRUE(BackUp().ok());
  LoseEtcd();
  const auto size = std::filesystem::file_size(path_);
  std::filesystem::resize_file(path_, size - 3);
  EXPECT_TRUE(IsDataLoss(Restore().status()));
  EXPECT_EQ(*CountRegistry(client_.get(), "demo"), 0u);
}

}  // namespace
}  // namespace quire::cluster
