// SPDX-License-Identifier: Apache-2.0
//
// SimPeers: calls of a simulated node to its peers about copies, over the simulated network.
// Thread-safety: none.
#ifndef QUIRE_TESTS_SIM_SIM_PEERS_H_
#define QUIRE_TESTS_SIM_SIM_PEERS_H_

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/replica/local_documents.h"
#include "cluster/replica/local_segments.h"
#include "cluster/replica/peer_nodes.h"
#include "tests/sim/sim_disk.h"
#include "tests/sim/sim_network.h"

namespace quire::sim {

/// Answers of a running node to its peers.
struct SimPeerService {
  cluster::LocalDocuments* documents = nullptr;
  cluster::LocalSegments* segments = nullptr;
  std::function<Status(std::string_view tenant, const SegmentKey& tip, std::string_view from)>
      copy_chain;
  std::function<Status(std::string_view tenant, const DocumentName& name)> adopt;
  std::function<bool(std::string_view tenant, const DocumentName& name)> is_releasing;
};

class SimPeers final : public cluster::PeerNodes {
 public:
  /// Finds what node `name` answers; null when it is down.
  using Find = std::function<SimPeerService*(const std::string& name)>;
  SimPeers(SimNetwork* network, std::string self, SimLifePtr life, Find find)
      : network_(*network),
        self_(std::move(self)),
        life_(std::move(life)),
        find_(std::move(find)) {}

  StatusOr<cluster::ChainDescription> Describe(const cluster::Member& member,
                                               std::string_view tenant,
                                               const SegmentKey& tip) override;
  StatusOr<cluster::SegmentCopy> Read(const cluster::Member& member, std::string_view tenant,
                                      const KvSpec& spec, const SegmentKey& key) override;
  StatusOr<std::vector<cluster::ExtraCopy>> ReadExtras(const cluster::Member&, std::string_view,
                                                       const DocumentName&) override {
    return std::vector<cluster::ExtraCopy>();
  }
  StatusOr<std::vector<cluster::Held>> Holds(const cluster::Member& member, std::string_view tenant,
                                             std::span<const Document> documents) override;
  Status CopyExtras(const cluster::Member&, std::string_view, const DocumentName&, std::string_view,
                    TimePoint) override {
    return OkStatus();  // There are none.
  }
  Status CopyChain(const cluster::Member& member, std::string_view tenant, const SegmentKey& tip,
                   std::string_view from, TimePoint deadline) override;
  Status Adopt(const cluster::Member& member, std::string_view tenant, const DocumentName& name,
               TimePoint deadline) override;

 private:
  template <typename Reply>
  StatusOr<Reply> Ask(const cluster::Member& member,
                      std::function<StatusOr<Reply>(SimPeerService&)> answer);

  SimNetwork& network_;
  const std::string self_;
  const SimLifePtr life_;
  const Find find_;
};

}  // namespace quire::sim

#endif  // QUIRE_TESTS_SIM_SIM_PEERS_H_
