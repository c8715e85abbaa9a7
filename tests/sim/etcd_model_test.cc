// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/etcd_model.h"

#include <gtest/gtest.h>

#include "cluster/etcd/etcd_requests.h"

namespace quire::sim {
namespace {

namespace pb = etcdserverpb;
using std::chrono::seconds;

pb::TxnRequest PutIf(const std::string& key, int64_t mod_revision, const std::string& value,
                     int64_t lease = 0) {
  pb::TxnRequest txn;
  cluster::RequireRevision(txn, key, mod_revision);
  cluster::AddPut(txn, key, value, lease);
  txn.add_failure()->mutable_request_range()->set_key(key);
  return txn;
}

std::string ValueOf(const EtcdModel& etcd, const std::string& key) {
  pb::RangeRequest request;
  request.set_key(key);
  const pb::RangeResponse range = etcd.Range(request);
  return range.kvs().empty() ? "" : range.kvs(0).value();
}

TEST(EtcdModelTest, ATransactionHoldsOnlyAtTheRevisionThatItRead) {
  EtcdModel etcd;
  const pb::TxnResponse first = etcd.Commit(PutIf("a", 0, "1"));
  EXPECT_TRUE(first.succeeded());
  const pb::TxnResponse refused = etcd.Commit(PutIf("a", 0, "2"));
  EXPECT_FALSE(refused.succeeded());
  EXPECT_EQ(refused.responses(0).response_range().kvs(0).value(), "1");
  EXPECT_EQ(etcd.revision(), first.header().revision()) << "nothing changed";
  EXPECT_TRUE(etcd.Commit(PutIf("a", first.header().revision(), "3")).succeeded());
  EXPECT_EQ(ValueOf(etcd, "a"), "3");
}

TEST(EtcdModelTest, RangesAreOfAPrefixAndInPages) {
  EtcdModel etcd;
  for (const char* key : {"p/a", "p/b", "p/c", "q"}) (void)etcd.Commit(PutIf(key, 0, key));
  pb::RangeRequest request;
  request.set_key("p/");
  request.set_range_end(cluster::PrefixEnd("p/"));
  EXPECT_EQ(etcd.Range(request).kvs_size(), 3);
  request.set_limit(2);
  EXPECT_EQ(etcd.Range(request).kvs_size(), 2);
  EXPECT_TRUE(etcd.Range(request).more());
}

TEST(EtcdModelTest, KeysEndWithTheirLease) {
  EtcdModel etcd;
  const TimePoint start{};
  const int64_t lease = etcd.GrantLease(seconds(10), start);
  (void)etcd.Commit(PutIf("live", 0, "x", lease));
  EXPECT_TRUE(etcd.KeepAlive(lease, start + seconds(9)).ok());
  etcd.EndLeases(start + seconds(11));
  EXPECT_EQ(ValueOf(etcd, "live"), "x");
  const int64_t before = etcd.revision();
  etcd.EndLeases(start + seconds(19));
  EXPECT_EQ(ValueOf(etcd, "live"), "");
  EXPECT_TRUE(IsNotFound(etcd.KeepAlive(lease, start + seconds(19))));
  const auto events = etcd.Since("live", before + 1);
  ASSERT_TRUE(events.ok() && events->size() == 1u);
  EXPECT_EQ((*events)[0].type(), pb::Event::DELETE);
}

TEST(EtcdModelTest, HistoryIsToldInOrderUntilItIsCompacted) {
  EtcdModel etcd;
  (void)etcd.Commit(PutIf("a", 0, "1"));
  const int64_t first = etcd.revision();
  (void)etcd.Commit(PutIf("b", 0, "1"));
  (void)etcd.Commit(PutIf("a", first, "2"));
  const auto events = etcd.Since("a", first);
  ASSERT_TRUE(events.ok() && events->size() == 2u);
  EXPECT_EQ((*events)[1].kv().value(), "2");
  etcd.Compact();
  EXPECT_EQ(etcd.Since("a", first).status().code(), StatusCode::kOutOfRange);
  EXPECT_TRUE(etcd.Since("a", etcd.revision() + 1).ok());
}

}  // namespace
}  // namespace quire::sim
