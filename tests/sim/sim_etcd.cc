// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/sim_etcd.h"

#include <utility>
#include <vector>

namespace quire::sim {
namespace {

namespace pb = etcdserverpb;

constexpr int kMostEtcdAttempts = 3;
constexpr SimCall kEtcdCall = {.timeout = std::chrono::seconds(1)};
constexpr Duration kSimWatch = std::chrono::milliseconds(100);

}  // namespace

void SimEtcd::Return() {
  model.RenewAll(scheduler.Now());
  network.Up(kSimEtcd);
}

SimEtcdClient::SimEtcdClient(SimEtcd* etcd, std::string self, SimLifePtr life)
    : EtcdClient({.endpoints = {kSimEtcd}}),
      etcd_(*etcd),
      self_(std::move(self)),
      life_(std::move(life)) {}

template <typename Reply>
StatusOr<Reply> SimEtcdClient::Ask(
    const std::function<StatusOr<Reply>(EtcdModel&, TimePoint)>& change) {
  StatusOr<Reply> reply = Unavailable("the process has ended");
  for (int attempt = 0; attempt < kMostEtcdAttempts && life_->is_alive; ++attempt) {
    reply = etcd_.network.Call<Reply>(self_, kSimEtcd, kEtcdCall,
                                      [etcd = &etcd_, change]() -> StatusOr<Reply> {
                                        etcd->model.EndLeases(etcd->scheduler.Now());
                                        return change(etcd->model, etcd->scheduler.Now());
                                      });
    if (!life_->is_alive) return Unavailable("the process has ended");
    if (!IsUnavailable(reply.status())) break;
  }
  return reply;
}

StatusOr<pb::RangeResponse> SimEtcdClient::Read(const pb::RangeRequest& request) {
  return Ask<pb::RangeResponse>([request](EtcdModel& model, TimePoint) {
    return StatusOr<pb::RangeResponse>(model.Range(request));
  });
}

StatusOr<pb::TxnResponse> SimEtcdClient::Commit(const pb::TxnRequest& txn) {
  return Ask<pb::TxnResponse>([txn](EtcdModel& model, TimePoint) -> StatusOr<pb::TxnResponse> {
    QUIRE_RETURN_IF_ERROR(model.CheckLeases(txn));
    return model.Commit(txn);
  });
}

StatusOr<int64_t> SimEtcdClient::GrantLease(Duration ttl) {
  return Ask<int64_t>([ttl](EtcdModel& model, TimePoint now) {
    return StatusOr<int64_t>(model.GrantLease(ttl, now));
  });
}

Status SimEtcdClient::KeepAlive(int64_t lease) {
  return Ask<bool>([lease](EtcdModel& model, TimePoint now) -> StatusOr<bool> {
           QUIRE_RETURN_IF_ERROR(model.KeepAlive(lease, now));
           return true;
         })
      .status();
}

Status SimEtcdClient::RevokeLease(int64_t lease) {
  return Ask<bool>([lease](EtcdModel& model, TimePoint) -> StatusOr<bool> {
           model.Revoke(lease);
           return true;
         })
      .status();
}

Status SimEtcdClient::Watch(std::string_view prefix, int64_t first_revision, WatchCall&,
                            const OnWatchResponse& on_response) {
  etcd_.scheduler.Sleep(kSimWatch);
  QUIRE_ASSIGN_OR_RETURN(
      const auto response,
      Ask<pb::WatchResponse>([prefix = std::string(prefix), first_revision](
                                 EtcdModel& model, TimePoint) -> StatusOr<pb::WatchResponse> {
        QUIRE_ASSIGN_OR_RETURN(const auto events, model.Since(prefix, first_revision));
        pb::WatchResponse answer;
        answer.mutable_header()->set_revision(model.revision());
        for (const pb::Event& event : events) *answer.add_events() = event;
        answer.set_created(events.empty());
        return answer;
      }));
  QUIRE_RETURN_IF_ERROR(on_response(response));
  return Status(StatusCode::kDeadlineExceeded, "the time of the watch is over");
}

}  // namespace quire::sim
