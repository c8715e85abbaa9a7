// SPDX-License-Identifier: Apache-2.0
//
// EtcdModel: the part of etcd that the cluster uses, as a state machine without I/O: revisions,
// ranges, transactions, leases, and a history that is forgotten by compaction. It answers the
// messages of etcd's API. The caller passes the time. Thread-safety: none.
#ifndef QUIRE_TESTS_SIM_ETCD_MODEL_H_
#define QUIRE_TESTS_SIM_ETCD_MODEL_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "etcd/etcd.pb.h"
#include "quire/clock.h"
#include "quire/status.h"

namespace quire::sim {

class EtcdModel {
 public:
  etcdserverpb::RangeResponse Range(const etcdserverpb::RangeRequest& request) const;
  etcdserverpb::TxnResponse Commit(const etcdserverpb::TxnRequest& txn);
  /// NOT_FOUND when a lease that the transaction names has ended. etcd refuses it then.
  Status CheckLeases(const etcdserverpb::TxnRequest& txn) const;

  int64_t GrantLease(Duration ttl, TimePoint now);
  /// NOT_FOUND when it has ended.
  Status KeepAlive(int64_t lease, TimePoint now);
  void Revoke(int64_t lease);
  /// Ends the leases whose time has passed.
  void EndLeases(TimePoint now);
  /// Gives every lease its whole time again, as a new leader does.
  void RenewAll(TimePoint now);

  /// Changes of keys with `prefix` from revision `first` on. OUT_OF_RANGE when some are forgotten.
  StatusOr<std::vector<etcdserverpb::Event>> Since(const std::string& prefix, int64_t first) const;
  /// Forgets the history up to the present.
  void Compact() { compacted_ = revision_, history_.clear(); }

  int64_t revision() const { return revision_; }
  size_t num_keys() const { return keys_.size(); }

 private:
  struct Lease {
    Duration ttl;
    TimePoint end;
  };
  bool Holds(const etcdserverpb::Compare& compare) const;
  void Put(const etcdserverpb::PutRequest& put, int64_t revision);
  void Delete(const std::string& key, int64_t revision);

  std::map<std::string, etcdserverpb::KeyValue> keys_;
  std::map<int64_t, Lease> leases_;
  std::vector<etcdserverpb::Event> history_;
  int64_t revision_ = 1, compacted_ = 0, last_lease_ = 0;
};

}  // namespace quire::sim

#endif  // QUIRE_TESTS_SIM_ETCD_MODEL_H_
