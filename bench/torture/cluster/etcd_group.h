// SPDX-License-Identifier: Apache-2.0
//
// EtcdGroup: the members of one etcd as processes, of which some may be dead. The destructor kills
// them. Thread-safety: none.
#ifndef QUIRE_BENCH_TORTURE_CLUSTER_ETCD_GROUP_H_
#define QUIRE_BENCH_TORTURE_CLUSTER_ETCD_GROUP_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/torture/child.h"
#include "cluster/etcd/etcd_client.h"
#include "quire/status.h"

namespace quire::torture {

class EtcdGroup {
 public:
  /// Starts a command at a place of the network, with its messages in a file of this name.
  using Launch = std::function<StatusOr<std::unique_ptr<Child>>(
      size_t member, const std::string& log, const std::vector<std::string>& command)>;
  struct Options {
    std::string directory;           ///< Exists. Data of the members goes there.
    std::vector<std::string> hosts;  ///< IPv4 address of each member; loopback may come repeatedly.
    Launch launch;
  };
  /// Starts all members, and returns once they answer. UNAVAILABLE when they do not.
  static StatusOr<std::unique_ptr<EtcdGroup>> Start(Options options);

  /// "host:port" of each member.
  std::vector<std::string> endpoints() const;
  size_t size() const { return members_.size(); }
  /// A client of all members, which lives as long as this.
  cluster::EtcdClient* client() const { return client_.get(); }

  /// SIGKILL of the member that leads. UNAVAILABLE when none says that it does.
  [[nodiscard]] Status KillLeader();
  [[nodiscard]] Status KillAll();
  /// Starts those that were killed, with their data, and returns once the group answers.
  [[nodiscard]] Status StartDead();

 private:
  struct Member {
    std::string name;
    std::string client;  ///< "host:port".
    std::string peer;
    std::unique_ptr<Child> process;  ///< Null while dead.
  };

  explicit EtcdGroup(Options options) : options_(std::move(options)) {}
  Status StartMember(size_t number);
  Status Kill(Member* member);
  /// True when a member says that it leads.
  static bool Leads(const Member& member);
  std::string InitialCluster() const;

  const Options options_;
  std::vector<Member> members_;
  std::unique_ptr<cluster::EtcdClient> client_;
};

}  // namespace quire::torture

#endif  // QUIRE_BENCH_TORTURE_CLUSTER_ETCD_GROUP_H_
