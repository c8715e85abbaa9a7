// SPDX-License-Identifier: Apache-2.0
#include "cluster/etcd/etcd_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "cluster/etcd/etcd_requests.h"
#include "cluster/etcd/testing/etcd_front.h"
#include "cluster/etcd/testing/etcd_process.h"

namespace quire::cluster {
namespace {

using ::testing::HasSubstr;

class EtcdClientTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { etcd_ = std::make_unique<testing::EtcdProcess>(); }
  static void TearDownTestSuite() { etcd_.reset(); }

  static std::unique_ptr<EtcdClient> ClientOf(std::vector<std::string> endpoints,
                                              Duration timeout = std::chrono::seconds(5)) {
    return EtcdClient::Create({.endpoints = std::move(endpoints), .call_timeout = timeout}).value();
  }
  static int64_t Put(EtcdClient& client, const std::string& key, const std::string& value,
                     int64_t lease = 0) {
    etcdserverpb::TxnRequest txn;
    AddPut(txn, key, value, lease);
    return client.Commit(txn).value().header().revision();
  }

  static std::unique_ptr<testing::EtcdProcess> etcd_;
};
std::unique_ptr<testing::EtcdProcess> EtcdClientTest::etcd_;

TEST_F(EtcdClientTest, ATransactionHoldsOnlyAtTheRevisionThatItNames) {
  const auto client = ClientOf({etcd_->address()});
  etcdserverpb::TxnRequest create;
  RequireRevision(create, "/txn/a", 0);
  AddPut(create, "/txn/a", "1");
  const auto created = client->Commit(create);
  ASSERT_TRUE(created.ok()) << created.status();
  EXPECT_TRUE(created->succeeded());
  EXPECT_FALSE(client->Commit(create)->succeeded()) << "it is there already";

  etcdserverpb::TxnRequest change;
  RequireRevision(change, "/txn/a", created->header().revision());
  AddDelete(change, "/txn/a");
  AddPut(change, "/txn/b", "2");
  EXPECT_TRUE(client->Commit(change)->succeeded());
  const auto range = client->ReadPrefix("/txn/");
  ASSERT_EQ(range->kvs_size(), 1);
  EXPECT_EQ(range->kvs(0).value(), "2");
}

TEST_F(EtcdClientTest, KeysOfALeaseGoWithIt) {
  const auto client = ClientOf({etcd_->address()});
  const auto lease = client->GrantLease(std::chrono::seconds(60));
  ASSERT_TRUE(lease.ok()) << lease.status();
  Put(*client, "/lease/a", "1", *lease);
  EXPECT_TRUE(client->KeepAlive(*lease).ok());
  EXPECT_EQ(client->ReadPrefix("/lease/")->kvs_size(), 1);
  EXPECT_TRUE(client->RevokeLease(*lease).ok());
  EXPECT_EQ(client->ReadPrefix("/lease/")->kvs_size(), 0);
  EXPECT_EQ(client->KeepAlive(*lease).code(), StatusCode::kNotFound);
}

TEST_F(EtcdClientTest, AnEndpointThatIsDownIsPassedOver) {
  const auto client =
      ClientOf({"127.0.0.1:" + std::to_string(testing::FreePort()), etcd_->address()});
  EXPECT_TRUE(client->ReadPrefix("/").ok());
}

TEST_F(EtcdClientTest, AnEtcdThatComesBackIsFoundSoon) {
  testing::EtcdProcess etcd;
  // With several endpoints a call is refused at once while none can be reached.
  const auto client = ClientOf({"127.0.0.1:" + std::to_string(testing::FreePort()), etcd.address()},
                               std::chrono::milliseconds(500));
  ASSERT_TRUE(client->ReadPrefix("/").ok());
  etcd.Kill();
  EXPECT_EQ(client->ReadPrefix("/").status().code(), StatusCode::kUnavailable);
  etcd.Start();
  const TimePoint start = SystemClock().Now();
  while (!client->ReadPrefix("/").ok()) {
    ASSERT_LT(SystemClock().Now() - start, std::chrono::seconds(4));
  }
}

TEST_F(EtcdClientTest, WithoutAnEndpointTheErrorNamesThem) {
  const std::string nowhere = "127.0.0.1:" + std::to_string(testing::FreePort());
  const auto client = ClientOf({nowhere}, std::chrono::milliseconds(100));
  const Status status = client->ReadPrefix("/").status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(status.ToString(), HasSubstr("etcd at " + nowhere + " does not answer"));
  EXPECT_EQ(EtcdClient::Create({}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(EtcdClient::Create({.endpoints = {"nonsense"}}).status().ToString(),
              HasSubstr("etcd at nonsense"));
}

TEST_F(EtcdClientTest, AWatchBeginsAtARevisionAndSaysWhenThatIsCompacted) {
  const auto client = ClientOf({etcd_->address()});
  const int64_t first = Put(*client, "/watch/a", "1");
  const int64_t second = Put(*client, "/watch/a", "2");
  std::string seen;
  EtcdClient::WatchCall call;
  const Status ended =
      client->Watch("/watch/", first, call, [&](const etcdserverpb::WatchResponse& response) {
        for (const auto& event : response.events()) seen += event.kv().value();
        return seen == "12" ? Status(StatusCode::kAborted, "enough") : OkStatus();
      });
  EXPECT_EQ(ended.code(), StatusCode::kAborted) << ended;

  etcd_->Compact();
  const auto nothing = [](const etcdserverpb::WatchResponse&) { return OkStatus(); };
  EXPECT_EQ(client->Watch("/watch/", first, call, nothing).code(), StatusCode::kOutOfRange);

  std::thread canceller([&] { call.Cancel(); });
  EXPECT_EQ(client->Watch("/watch/", second, call, nothing).code(), StatusCode::kCancelled);
  canceller.join();
}

TEST_F(EtcdClientTest, ChangesThatAreTooLargeForOneMessageComeInPieces) {
  constexpr int kKeys = 68;
  const auto client = ClientOf({etcd_->address()});
  const std::string megabyte(1 << 20, 'x');
  int64_t first = 0;
  for (int i = 0; i < kKeys; ++i) {
    const int64_t revision = Put(*client, "/large/" + std::to_string(i), megabyte);
    if (i == 0) first = revision;
  }
  int keys = 0;
  EtcdClient::WatchCall call;
  const Status ended =
      client->Watch("/large/", first, call, [&](const etcdserverpb::WatchResponse& response) {
        EXPECT_FALSE(response.fragment());
        for (const auto& event : response.events()) {
          keys += event.kv().value().size() == megabyte.size();
        }
        return keys == kKeys ? Status(StatusCode::kAborted, "enough") : OkStatus();
      });
  EXPECT_EQ(ended.code(), StatusCode::kAborted) << ended;
  EXPECT_EQ(keys, kKeys);
}

TEST_F(EtcdClientTest, AWatchEndsAtAMemberWithoutALeader) {
  testing::EtcdFront front(etcd_->address());
  const auto client = ClientOf({front.address()});
  EtcdClient::WatchCall call;
  const Status ended =
      client->Watch("/", 1, call, [](const etcdserverpb::WatchResponse&) { return OkStatus(); });
  EXPECT_EQ(ended.code(), StatusCode::kUnavailable) << ended;
  EXPECT_TRUE(front.needs_leader) << "etcd lets a watch wait without it";
}

}  // namespace
}  // namespace quire::cluster
