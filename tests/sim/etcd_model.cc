// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/etcd_model.h"

#include <utility>

namespace quire::sim {

namespace pb = etcdserverpb;

pb::RangeResponse EtcdModel::Range(const pb::RangeRequest& request) const {
  pb::RangeResponse response;
  response.mutable_header()->set_revision(revision_);
  auto at = keys_.lower_bound(request.key());
  // An empty end means the key alone.
  const auto end = request.range_end().empty() ? keys_.upper_bound(request.key())
                                               : keys_.lower_bound(request.range_end());
  for (; at != end; ++at) {
    if (request.limit() > 0 && response.kvs_size() == request.limit()) {
      response.set_more(true);
      break;
    }
    *response.add_kvs() = at->second;
  }
  return response;
}

bool EtcdModel::Holds(const pb::Compare& compare) const {
  const auto found = keys_.find(compare.key());
  const int64_t actual = found == keys_.end() ? 0 : found->second.mod_revision();
  return actual == compare.mod_revision();
}

pb::TxnResponse EtcdModel::Commit(const pb::TxnRequest& txn) {
  pb::TxnResponse response;
  bool holds = true;
  for (const pb::Compare& compare : txn.compare()) holds = holds && Holds(compare);
  response.set_succeeded(holds);
  const auto& operations = holds ? txn.success() : txn.failure();
  bool changes = false;
  for (const pb::RequestOp& operation : operations) {
    pb::ResponseOp& answer = *response.add_responses();
    if (operation.has_request_range()) {
      *answer.mutable_response_range() = Range(operation.request_range());
      continue;
    }
    changes = true;  // All changes of a transaction have one revision.
    if (operation.has_request_put()) Put(operation.request_put(), revision_ + 1);
    if (operation.has_request_delete_range()) {
      Delete(operation.request_delete_range().key(), revision_ + 1);
    }
  }
  if (changes) ++revision_;
  response.mutable_header()->set_revision(revision_);
  return response;
}

Status EtcdModel::CheckLeases(const pb::TxnRequest& txn) const {
  for (const pb::RequestOp& operation : txn.success()) {
    const int64_t lease = operation.request_put().lease();
    if (lease != 0 && !leases_.contains(lease)) return NotFound("requested lease not found");
  }
  return OkStatus();
}

void EtcdModel::Put(const pb::PutRequest& put, int64_t revision) {
  pb::KeyValue& kv = keys_[put.key()];
  if (kv.version() == 0) kv.set_create_revision(revision);
  kv.set_key(put.key());
  kv.set_value(put.value());
  kv.set_lease(put.lease());
  kv.set_mod_revision(revision);
  kv.set_version(kv.version() + 1);
  pb::Event event;
  *event.mutable_kv() = kv;
  history_.push_back(std::move(event));
}

void EtcdModel::Delete(const std::string& key, int64_t revision) {
  if (keys_.erase(key) == 0) return;
  pb::Event event;
  event.set_type(pb::Event::DELETE);
  event.mutable_kv()->set_key(key);
  event.mutable_kv()->set_mod_revision(revision);
  history_.push_back(std::move(event));
}

int64_t EtcdModel::GrantLease(Duration ttl, TimePoint now) {
  leases_[++last_lease_] = {.ttl = ttl, .end = now + ttl};
  return last_lease_;
}

Status EtcdModel::KeepAlive(int64_t lease, TimePoint now) {
  const auto found = leases_.find(lease);
  if (found == leases_.end()) return NotFound("the lease has ended in etcd");
  found->second.end = now + found->second.ttl;
  return OkStatus();
}

void EtcdModel::Revoke(int64_t lease) {
  if (leases_.erase(lease) == 0) return;
  std::vector<std::string> keys;
  for (const auto& [key, kv] : keys_) {
    if (kv.lease() == lease) keys.push_back(key);
  }
  if (keys.empty()) return;
  ++revision_;
  for (const std::string& key : keys) Delete(key, revision_);
}

void EtcdModel::EndLeases(TimePoint now) {
  std::vector<int64_t> ended;
  for (const auto& [id, lease] : leases_) {
    if (lease.end <= now) ended.push_back(id);
  }
  for (const int64_t id : ended) Revoke(id);
}

void EtcdModel::RenewAll(TimePoint now) {
  for (auto& [id, lease] : leases_) lease.end = now + lease.ttl;
}

StatusOr<std::vector<pb::Event>> EtcdModel::Since(const std::string& prefix, int64_t first) const {
  if (first <= compacted_) return Status(StatusCode::kOutOfRange, "etcd has compacted the history");
  std::vector<pb::Event> events;
  for (const pb::Event& event : history_) {
    const bool wanted = event.kv().mod_revision() >= first && event.kv().key().starts_with(prefix);
    if (wanted) events.push_back(event);
  }
  return events;
}

}  // namespace quire::sim
