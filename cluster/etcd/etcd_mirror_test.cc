// SPDX-License-Identifier: Apache-2.0
#include "cluster/etcd/etcd_mirror.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <map>
#include <string>

#include "cluster/etcd/etcd_requests.h"
#include "cluster/etcd/testing/etcd_process.h"

namespace quire::cluster {
namespace {

/// Remembers what it hears, and lets the test wait for it.
class RecordingObserver final : public EtcdMirror::Observer {
 public:
  void OnKeys(const EtcdSnapshot& snapshot) override {
    MutexLock lock(mutex_);
    snapshot_ = snapshot;
    away_ = OkStatus();
    changed_.NotifyAll();
  }
  void OnAway(const Status& why) override {
    MutexLock lock(mutex_);
    away_ = why;
    changed_.NotifyAll();
  }
  void OnReached() override {
    MutexLock lock(mutex_);
    away_ = OkStatus();
    changed_.NotifyAll();
  }
  bool WaitForKeys(const std::map<std::string, std::string>& keys) {
    return WaitUntil([&] {
      std::map<std::string, std::string> values;
      for (const auto& [name, key] : snapshot_.keys) values[name] = key.value;
      return away_.ok() && values == keys;
    });
  }
  bool WaitForAway() {
    return WaitUntil([&] { return !away_.ok(); });
  }

 private:
  bool WaitUntil(const std::function<bool()>& holds) {
    const TimePoint deadline = SystemClock().Now() + std::chrono::seconds(20);
    MutexLock lock(mutex_);
    while (!holds()) {
      if (SystemClock().Now() >= deadline) return false;
      changed_.WaitFor(mutex_, std::chrono::milliseconds(100));
    }
    return true;
  }

  Mutex mutex_;
  CondVar changed_;
  EtcdSnapshot snapshot_;
  Status away_ = Unavailable("nothing was heard yet");
};

class EtcdMirrorTest : public ::testing::Test {
 protected:
  void Put(const std::string& key, const std::string& value) {
    etcdserverpb::TxnRequest txn;
    AddPut(txn, key, value);
    ASSERT_TRUE(client_->Commit(txn).ok());
  }
  void Delete(const std::string& key) {
    etcdserverpb::TxnRequest txn;
    AddDelete(txn, key);
    ASSERT_TRUE(client_->Commit(txn).ok());
  }

  testing::EtcdProcess etcd_;
  const std::unique_ptr<EtcdClient> client_ =
      EtcdClient::Create({.endpoints = {etcd_.address()}}).value();
  RecordingObserver observer_;
};

TEST_F(EtcdMirrorTest, FollowsChangesOverRestartsCompactionAndLostData) {
  Put("/m/a", "1");
  Put("/other", "x");
  EtcdMirror mirror(client_.get(), "/m/", &observer_);
  EXPECT_TRUE(observer_.WaitForKeys({{"a", "1"}}));
  Put("/m/b", "2");
  Delete("/m/a");
  EXPECT_TRUE(observer_.WaitForKeys({{"b", "2"}}));

  etcd_.Kill();
  EXPECT_TRUE(observer_.WaitForAway());
  etcd_.Start();
  Put("/m/c", "3");
  etcd_.Compact();
  EXPECT_TRUE(observer_.WaitForKeys({{"b", "2"}, {"c", "3"}}));

  etcd_.Kill();
  etcd_.LoseData();
  etcd_.Start();
  EXPECT_TRUE(observer_.WaitForKeys({})) << "its revisions began anew";
  Put("/m/d", "4");
  EXPECT_TRUE(observer_.WaitForKeys({{"d", "4"}}));
}

}  // namespace
}  // namespace quire::cluster
