// SPDX-License-Identifier: Apache-2.0
//
// Keys that a large cluster has in etcd, and events that its nodes hear from it. Records are
// encoded as nodes encode them. Rates follow from the options. Pure functions.
#ifndef QUIRE_BENCH_SCALE_ETCD_SCALE_H_
#define QUIRE_BENCH_SCALE_ETCD_SCALE_H_

#include <cstdint>

#include "bench/scale/scale_cluster.h"

namespace quire::scale {

/// Bytes of a key and its value together.
struct EtcdScale {
  uint64_t keys = 0;
  uint64_t bytes = 0;         ///< Bytes of all keys, without etcd's own overhead and old revisions.
  double bytes_per_node = 0;  ///< Both records.
  double bytes_per_document = 0;  ///< The entry of a name with one version.

  double renewals_per_second = 0;      ///< Renewals of leases; each has a read.
  double transactions_per_second = 0;  ///< Registrations and restarts.
  double events_per_second = 0;        ///< Changed keys times the nodes that watch them.
  double event_bytes_per_second = 0;   ///< Sent by etcd to all nodes together.
  double event_bytes_per_node = 0;     ///< Heard by each node, a second.
};

[[nodiscard]] EtcdScale MeasureEtcd(const ScaleOptions& options);

}  // namespace quire::scale

#endif  // QUIRE_BENCH_SCALE_ETCD_SCALE_H_
