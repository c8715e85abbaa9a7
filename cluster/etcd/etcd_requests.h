// SPDX-License-Identifier: Apache-2.0
//
// Parts of etcd's requests: ranges by prefix, comparisons and operations of transactions. Pure
// functions.
#ifndef QUIRE_CLUSTER_ETCD_ETCD_REQUESTS_H_
#define QUIRE_CLUSTER_ETCD_ETCD_REQUESTS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "etcd/etcd.pb.h"

namespace quire::cluster {

/// End of the range of keys that begin with `prefix`.
[[nodiscard]] std::string PrefixEnd(std::string_view prefix);

/// The transaction holds only if `key` was last changed at `mod_revision`; 0: if it is not there.
void RequireRevision(etcdserverpb::TxnRequest& txn, std::string_view key, int64_t mod_revision);
/// Puts a key under a lease; 0: without one.
void AddPut(etcdserverpb::TxnRequest& txn, std::string_view key, std::string_view value,
            int64_t lease = 0);
void AddDelete(etcdserverpb::TxnRequest& txn, std::string_view key);
/// The same for every key that begins with `prefix`.
void AddDeletePrefix(etcdserverpb::TxnRequest& txn, std::string_view prefix);
/// Reads a key, together with the rest of the transaction.
void AddRead(etcdserverpb::TxnRequest& txn, std::string_view key);

}  // namespace quire::cluster

#endif  // QUIRE_CLUSTER_ETCD_ETCD_REQUESTS_H_
