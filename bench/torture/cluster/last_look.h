// SPDX-License-Identifier: Apache-2.0
//
// LookAtCluster: compares what a healed cluster has with what it acknowledged.
#ifndef QUIRE_BENCH_TORTURE_CLUSTER_LAST_LOOK_H_
#define QUIRE_BENCH_TORTURE_CLUSTER_LAST_LOOK_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/torture/cluster/document_writer.h"
#include "quire/status.h"

namespace quire::torture {

struct LastLook {
  uint64_t kept = 0;            ///< Documents that must be there.
  uint64_t lost = 0;            ///< Those of them that no server answers for.
  uint64_t absent = 0;          ///< Those that no server lists.
  uint64_t wrong = 0;           ///< Copies with other bytes, each of which was read.
  uint64_t resurrected = 0;     ///< Deleted ones that a server lists.
  uint64_t copies_missing = 0;  ///< Also those that are listed, and lack something.
  std::string first_trouble;
};

/// Looks again until nothing is missing, or for half a minute: repairs take a while. Documents that
/// no server lists are waited for less, since nothing can repair them. `replicas` is
/// the number of servers that must have each document. UNAVAILABLE when a server lists nothing.
StatusOr<LastLook> LookAtCluster(const std::vector<std::unique_ptr<DocumentWriter>>& writers,
                                 const std::vector<std::string>& servers, uint32_t replicas);

}  // namespace quire::torture

#endif  // QUIRE_BENCH_TORTURE_CLUSTER_LAST_LOOK_H_
