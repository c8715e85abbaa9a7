// SPDX-License-Identifier: Apache-2.0
//
// SimNode: a server of a simulated cluster. Its disk outlives its processes. A process has the
// product's registry, directory and replicator, over a simulated store, network and etcd. Calls
// of clients and peers run in tasks. Thread-safety: none.
#ifndef QUIRE_TESTS_SIM_SIM_NODE_H_
#define QUIRE_TESTS_SIM_SIM_NODE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cluster/view/cluster_view.h"
#include "quire/clock.h"
#include "quire/documents.h"
#include "quire/status.h"
#include "tests/sim/sim_disk.h"
#include "tests/sim/sim_etcd.h"
#include "tests/sim/sim_network.h"
#include "tests/sim/sim_peers.h"
#include "tests/sim/sim_scheduler.h"

namespace quire::sim {

/// Parts that all nodes share.
struct SimSurroundings {
  SimScheduler& scheduler;
  SimNetwork& network;
  SimEtcd& etcd;
  SimPeers::Find find_peer;
};

class SimNode {
 public:
  SimNode(SimSurroundings surroundings, const std::string& name, const std::string& zone);
  /// Its process has ended.
  ~SimNode();

  const std::string& name() const { return self_.name; }
  const cluster::Member& AsMember() const { return self_; }
  SimDisk& disk() { return disk_; }
  bool IsRunning() const { return process_ != nullptr; }
  /// Moves its wall clock.
  void JumpClock(Duration by) { clock_offset_ += by; }

  /// Starts a process, which joins as soon as it can.
  void Start();
  /// Ends the process at once. Unwritten bytes are lost.
  void Crash();

  /// Answers of its process to peers; null when it is not ready.
  SimPeerService* peer_service();

  // --- Calls of clients, in tasks of this node. UNAVAILABLE when it is not ready.

  StatusOr<cluster::ClusterView> View();
  StatusOr<Document> Put(const DocumentName& name, uint64_t content);
  StatusOr<Document> Read(const DocumentName& name);
  /// Compares the pages of a document that Read found.
  Status CheckPages(const Document& document, uint64_t content);
  Status Delete(const DocumentName& name);
  Status SetTag(const DocumentName& name, int64_t value);

  // --- For checks, from outside of tasks.

  /// All documents of its process; empty when it has none that is ready.
  std::vector<Document> Documents();
  /// True when the chain is stored: in the process that runs, or else on the disk.
  bool HasChain(const SegmentKey& tip);
  /// Begins a comparison of all names, as an operator or the time does.
  void StartPass();
  /// Why the node is not ready or has work left; OK when it is done.
  Status Settled();

 private:
  struct Process;
  using ProcessPtr = std::shared_ptr<Process>;
  class NodeClock;

  void Run(const ProcessPtr& process);
  Status Open(const ProcessPtr& process);
  void Serve(const ProcessPtr& process);
  void MeasureHeat(const ProcessPtr& process);
  /// Calls of peers.
  Status CopyChain(std::string_view tenant, const SegmentKey& tip, std::string_view from);
  Status Adopt(std::string_view tenant, const DocumentName& version);
  /// The process, when it is ready.
  StatusOr<ProcessPtr> Ready() const;

  const SimSurroundings surroundings_;
  cluster::Member self_;
  SimDisk disk_;
  Duration clock_offset_{};
  ProcessPtr process_;
};

}  // namespace quire::sim

#endif  // QUIRE_TESTS_SIM_SIM_NODE_H_
