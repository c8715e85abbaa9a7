// SPDX-License-Identifier: Apache-2.0
#include "cluster/hot/etcd_hot_documents.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <vector>

#include "cluster/etcd/testing/etcd_process.h"
#include "cluster/membership/cluster_records.h"

namespace quire::cluster {
namespace {

class EtcdHotDocumentsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { etcd_ = std::make_unique<testing::EtcdProcess>(); }
  static void TearDownTestSuite() { etcd_.reset(); }

  /// The hot documents of the cluster, as every node sees them.
  std::vector<HotDocument> Hot() const {
    const auto range = client_->ReadPrefix(ClusterPrefix("demo")).value();
    return ViewOf("demo", ParseRecords(SnapshotOf(range, ClusterPrefix("demo"))).value())
        .hot_documents;
  }

  static std::unique_ptr<testing::EtcdProcess> etcd_;
  static inline const ReadName kName = {"t", "books", "hand book"};
  const std::unique_ptr<EtcdClient> client_ =
      EtcdClient::Create(
          {.endpoints = {etcd_->address()}, .call_timeout = std::chrono::seconds(10)})
          .value();
  EtcdHotDocuments hot_{client_.get(), "demo"};
};
std::unique_ptr<testing::EtcdProcess> EtcdHotDocumentsTest::etcd_;

TEST_F(EtcdHotDocumentsTest, OneNodeBeginsAndOneAddsAndTheLeaseEndsIt) {
  EXPECT_TRUE(hot_.Begin(kName, std::chrono::seconds(60)).value());
  EXPECT_FALSE(hot_.Begin(kName, std::chrono::seconds(60)).value()) << "it has begun";
  ASSERT_EQ(Hot().size(), 1u);
  const HotDocument first = Hot()[0];
  EXPECT_EQ(first.document, "hand book");
  EXPECT_EQ(first.extra_replicas, 1u);
  EXPECT_TRUE(hot_.AddOne(first).value());
  EXPECT_FALSE(hot_.AddOne(first).value()) << "another node was faster";
  ASSERT_EQ(Hot().size(), 1u);
  EXPECT_EQ(Hot()[0].extra_replicas, 2u);
  EXPECT_TRUE(hot_.Keep(first).ok()) << "the lease is the same";

  ASSERT_TRUE(client_->RevokeLease(first.lease).ok());
  EXPECT_TRUE(Hot().empty());
  EXPECT_TRUE(IsNotFound(hot_.Keep(first)));
  const auto added = hot_.AddOne(first);
  EXPECT_TRUE(added.ok() ? !*added : IsNotFound(added.status())) << added.status();
  EXPECT_TRUE(Hot().empty());
}

TEST_F(EtcdHotDocumentsTest, ADocumentThatNobodyKeepsCools) {
  ASSERT_TRUE(hot_.Begin(kName, std::chrono::seconds(1)).value());
  const TimePoint deadline = SystemClock().Now() + std::chrono::seconds(20);
  while (!Hot().empty() && SystemClock().Now() < deadline) {
    SystemClock().Sleep(std::chrono::milliseconds(100));
  }
  EXPECT_TRUE(Hot().empty());
}

}  // namespace
}  // namespace quire::cluster
