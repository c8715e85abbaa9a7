// SPDX-License-Identifier: Apache-2.0
//
// HeldDigests: the digests that a sequence holds in memory from its start. A background task reads
// them layer by layer. A selection before that takes part in the reading (DigestResidency) and
// reads nothing twice. Layers without room are left to the lanes, which retry at their first query.
// Thread-safety: safe for concurrent use. Ownership: shared by the sequence and its running task.
// Reading ends with the sequence. The executor outlives the start and every task; the store
// outlives the executor.
#ifndef QUIRE_KVSERVER_SESSION_HELD_DIGESTS_H_
#define QUIRE_KVSERVER_SESSION_HELD_DIGESTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/counters.h"
#include "common/base/executor.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/page/key.h"
#include "common/page/kv_spec.h"
#include "kernels/api/digest.h"
#include "kvserver/select/digest_residency.h"

namespace quire::kvserver {

/// Digests that the sequences of a session hold from their start.
struct HeldDigestsShape {
  kernels::DigestKind kind = kernels::DigestKind::kMinMax;
  std::vector<uint32_t> layers;  ///< Distinct and managed, in reading order.
};

/// Counters of one server. Thread-safe.
struct HeldDigestsCounters {
  Counter layers;   ///< Layers of sequences held since their start.
  Counter stopped;  ///< Sequences that could not hold all layers.
};

class HeldDigests : public std::enable_shared_from_this<HeldDigests> {
 public:
  struct Parts {
    std::shared_ptr<DigestResidency> residency;
    std::shared_ptr<HeldDigestsCounters> counters;
    Executor* executor = nullptr;
  };
  /// Stored segments of the sequence's contexts, and the digests to hold.
  struct Wanted {
    std::string tenant;
    KvSpec spec;
    HeldDigestsShape shape;
    std::vector<std::shared_ptr<const std::vector<SegmentKey>>> chains;
  };
  /// Starts the background reading.
  static std::shared_ptr<HeldDigests> Start(Parts parts, Wanted wanted);

 private:
  HeldDigests(Parts parts, Wanted wanted);
  /// Reads the layer at `index` in the background, and then those after it.
  void Submit(size_t index);
  /// Holds the layer for every context. Returns true when all are held now.
  bool HoldLayer(uint32_t layer) QUIRE_EXCLUDES(mutex_);

  const Parts parts_;
  const Wanted wanted_;
  Mutex mutex_;
  std::vector<std::shared_ptr<const ResidentDigests>> held_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SESSION_HELD_DIGESTS_H_
