// SPDX-License-Identifier: Apache-2.0
//
// HeldQueries: the queries of one layer that chose what its KV heads attend to. A head may hold an
// older selection than its neighbour, so each is looked up by the position of its own query.
// Queries stay on the device; one that no head holds is forgotten when two newer ones have come,
// and its memory is used again.
//
// Thread-safety: none. Ownership: the device outlives it.
#ifndef QUIRE_GPUWORKER_RETRIEVAL_KEYS_HELD_QUERIES_H_
#define QUIRE_GPUWORKER_RETRIEVAL_KEYS_HELD_QUERIES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gpuworker/device/device.h"
#include "quire/kv_spec.h"
#include "quire/status.h"

namespace quire::worker {

class HeldQueries {
 public:
  HeldQueries(const KvSpec& spec, Device* device);

  /// True if the query of `position` is here. 0 is the position of none.
  bool Has(uint64_t position) const;
  /// Memory for the query of `position`, [n_q][d] on the device, which the caller fills. Positions
  /// ascend. `held`, [n_kv], are those that heads hold.
  StatusOr<float*> MakeRoom(uint64_t position, std::span<const uint64_t> held);
  /// Copies `q` into it.
  [[nodiscard]] Status Keep(uint64_t position, const float* q, std::span<const uint64_t> held);
  /// The group of queries of one KV head, [n_q / n_kv][d] on the device; null when there is none of
  /// `position`.
  const float* Group(uint64_t position, size_t head) const;
  /// [n_q][d] on the device: for each KV head the query of held[head]. Numbers of heads without a
  /// query here are unspecified. Null when no head has one. Valid until the next call.
  StatusOr<const float*> Gather(std::span<const uint64_t> held);

  /// Queries that are kept: at most n_kv + 3.
  size_t size() const { return queries_.size(); }

 private:
  struct Query {
    uint64_t position = 0;
    DeviceBuffer values;  ///< [n_q][d]
  };
  const Query* Find(uint64_t position) const;
  /// Forgets what neither a head holds nor a recall may bring.
  void Forget(std::span<const uint64_t> held);

  Device* const device_;
  const size_t row_floats_;     ///< Floats of one KV head: its group of queries.
  const size_t query_bytes_;    ///< Bytes of all heads.
  std::vector<Query> queries_;  ///< Ascending by position.
  std::vector<DeviceBuffer> spare_;
  DeviceBuffer gathered_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_RETRIEVAL_KEYS_HELD_QUERIES_H_
