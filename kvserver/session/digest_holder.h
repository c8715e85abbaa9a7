// SPDX-License-Identifier: Apache-2.0
//
// DigestHolder: the digests that a sequence holds in memory from its start. A background task reads
// them layer by layer. A selection before that takes part in the reading (DigestResidency) and
// reads nothing twice. Layers without room are left to the lanes, which retry at their first query.
// Thread-safety: safe for concurrent use. Ownership: shared by the sequence and its running task.
// Reading ends with the sequence. The executor outlives the start and every task; the store
// outlives the executor.
#ifndef QUIRE_KVSERVER_SESSION_DIGEST_HOLDER_H_
#define QUIRE_KVSERVER_SESSION_DIGEST_HOLDER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/observe/counters.h"
#include "common/base/threads/executor.h"
#include "common/base/threads/mutex.h"
#include "kvserver/select/digest_residency.h"
#include "quire/digest.h"
#include "quire/key.h"
#include "quire/kv_spec.h"
#include "quire/status.h"

namespace quire::kvserver {

/// Counted for one server. Thread-safe.
struct DigestHolderCounters {
  Counter layers;   ///< Layers of sequences held since their start.
  Counter stopped;  ///< Sequences that could not hold all layers.
};

class DigestHolder : public std::enable_shared_from_this<DigestHolder> {
 public:
  struct Parts {
    std::shared_ptr<DigestResidency> residency;
    std::shared_ptr<DigestHolderCounters> counters;
    Executor* executor = nullptr;
  };
  /// Stored segments of the sequence's contexts, and the digests to hold.
  struct Wanted {
    std::string tenant;
    KvSpec spec;
    HeldDigests shape;
    std::vector<std::shared_ptr<const std::vector<SegmentKey>>> chains;
  };
  /// Starts the background reading.
  static std::shared_ptr<DigestHolder> Start(Parts parts, Wanted wanted);

 private:
  DigestHolder(Parts parts, Wanted wanted);
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

#endif  // QUIRE_KVSERVER_SESSION_DIGEST_HOLDER_H_
