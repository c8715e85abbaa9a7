// SPDX-License-Identifier: Apache-2.0
#include "cluster/etcd/etcd_requests.h"

namespace quire::cluster {

namespace pb = etcdserverpb;

std::string PrefixEnd(std::string_view prefix) {
  std::string end(prefix);
  while (!end.empty() && end.back() == '\xff') end.pop_back();
  if (end.empty()) return std::string(1, '\0');  // Every key.
  end.back() = static_cast<char>(static_cast<unsigned char>(end.back()) + 1);
  return end;
}

void RequireRevision(pb::TxnRequest& txn, std::string_view key, int64_t mod_revision) {
  pb::Compare& compare = *txn.add_compare();
  compare.set_key(std::string(key));
  compare.set_target(pb::Compare::MOD);
  compare.set_result(pb::Compare::EQUAL);
  compare.set_mod_revision(mod_revision);
}

void AddPut(pb::TxnRequest& txn, std::string_view key, std::string_view value, int64_t lease) {
  pb::PutRequest& put = *txn.add_success()->mutable_request_put();
  put.set_key(std::string(key));
  put.set_value(std::string(value));
  put.set_lease(lease);
}

void AddDelete(pb::TxnRequest& txn, std::string_view key) {
  txn.add_success()->mutable_request_delete_range()->set_key(std::string(key));
}

void AddDeletePrefix(pb::TxnRequest& txn, std::string_view prefix) {
  pb::DeleteRangeRequest& range = *txn.add_success()->mutable_request_delete_range();
  range.set_key(std::string(prefix));
  range.set_range_end(PrefixEnd(prefix));
}

void AddRead(pb::TxnRequest& txn, std::string_view key) {
  txn.add_success()->mutable_request_range()->set_key(std::string(key));
}

}  // namespace quire::cluster
