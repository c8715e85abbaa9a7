// SPDX-License-Identifier: Apache-2.0
//
// SimEtcd: the process "etcd" of a simulation, and the client of it that a node has. Calls go over
// the simulated network, and are made again when no reply comes, as EtcdClient does. Thread-safety:
// none.
#ifndef QUIRE_TESTS_SIM_SIM_ETCD_H_
#define QUIRE_TESTS_SIM_SIM_ETCD_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "cluster/etcd/etcd_client.h"
#include "quire/clock.h"
#include "quire/status.h"
#include "tests/sim/etcd_model.h"
#include "tests/sim/sim_disk.h"
#include "tests/sim/sim_network.h"
#include "tests/sim/sim_scheduler.h"

namespace quire::sim {

inline constexpr char kSimEtcd[] = "etcd";

struct SimEtcd {
  SimScheduler& scheduler;
  SimNetwork& network;
  EtcdModel model = {};

  /// Goes away with its clients' leases running, and comes back with all of them renewed.
  void Leave() { network.Down(kSimEtcd); }
  void Return();
};

class SimEtcdClient final : public cluster::EtcdClient {
 public:
  SimEtcdClient(SimEtcd* etcd, std::string self, SimLifePtr life);

  StatusOr<etcdserverpb::RangeResponse> Read(const etcdserverpb::RangeRequest& request) override;
  StatusOr<etcdserverpb::TxnResponse> Commit(const etcdserverpb::TxnRequest& txn) override;
  StatusOr<int64_t> GrantLease(Duration ttl) override;
  Status KeepAlive(int64_t lease) override;
  Status RevokeLease(int64_t lease) override;
  /// Ends after a moment of simulated time, whatever the deadline.
  Status Watch(std::string_view prefix, int64_t first_revision, WatchCall& call,
               const OnWatchResponse& on_response) override;

 private:
  /// Has etcd carry out `change` until a reply comes, a few times.
  template <typename Reply>
  StatusOr<Reply> Ask(const std::function<StatusOr<Reply>(EtcdModel&, TimePoint)>& change);

  SimEtcd& etcd_;
  const std::string self_;
  const SimLifePtr life_;
};

}  // namespace quire::sim

#endif  // QUIRE_TESTS_SIM_SIM_ETCD_H_
