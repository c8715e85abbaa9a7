// SPDX-License-Identifier: Apache-2.0
//
// PeerClocks: asks members of a cluster for the time. Thread-safety: pure but for the calls.
#ifndef QUIRE_APPS_QUIRED_PEER_CLOCKS_H_
#define QUIRE_APPS_QUIRED_PEER_CLOCKS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cluster/view/cluster_view.h"
#include "quire/bearer_token.h"

namespace quire::kvserver {

/// Offsets of this machine's clock to those of up to three members that serve and answer, in
/// microseconds. `self` is not asked. Members that do not answer within a second are left out.
[[nodiscard]] std::vector<int64_t> ClockOffsets(const cluster::ClusterView& view,
                                                const std::string& self, const std::string& tenant,
                                                const BearerToken& token);

}  // namespace quire::kvserver

#endif  // QUIRE_APPS_QUIRED_PEER_CLOCKS_H_
