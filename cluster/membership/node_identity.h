// SPDX-License-Identifier: Apache-2.0
//
// NodeIdentity: what a node's disk says of it, in DATA_DIR/cluster.json. It binds a disk to one
// cluster, one name and one node id. The node id is written before the first join, so a crash
// during it leaves a disk that can go on. Thread-safety: pure but for the file.
#ifndef QUIRE_CLUSTER_MEMBERSHIP_NODE_IDENTITY_H_
#define QUIRE_CLUSTER_MEMBERSHIP_NODE_IDENTITY_H_

#include <optional>
#include <string>

#include "quire/status.h"
#include "quire/v1/cluster.pb.h"

namespace quire::cluster {

/// 32 hexadecimal digits from the system's generator.
[[nodiscard]] std::string NewId();

/// Nullopt when the disk has none. DATA_LOSS naming the file when it cannot be read.
[[nodiscard]] StatusOr<std::optional<v1::NodeIdentity>> ReadIdentity(const std::string& data_dir);
/// Replaces the file as a whole and syncs it. UNAVAILABLE naming the file.
[[nodiscard]] Status WriteIdentity(const std::string& data_dir, const v1::NodeIdentity& identity);

}  // namespace quire::cluster

#endif  // QUIRE_CLUSTER_MEMBERSHIP_NODE_IDENTITY_H_
