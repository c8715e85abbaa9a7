// SPDX-License-Identifier: Apache-2.0
//
// DigestHolder: the digests that a sequence asked to have in memory from its start. They are read
// in the background, layer by layer, and held until the sequence goes; a selection that comes
// before its layer has been read takes part in the reading (DigestResidency) and reads nothing
// twice. What finds no room is left to the lanes, which hold it at their first query if there is
// room then. Thread-safety: safe for concurrent use. Ownership: shared by the sequence and, while
// it runs, the task that reads; it ends the reading when the sequence goes. The executor outlives
// the start and every task; the store the executor.
#ifndef QUIRE_KVSERVER_SESSION_DIGEST_HOLDER_H_
#define QUIRE_KVSERVER_SESSION_DIGEST_HOLDER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/counters.h"
#include "common/base/executor.h"
#include "common/base/mutex.h"
#include "kvserver/select/digest_residency.h"
#include "quire/digest.h"
#include "quire/key.h"
#include "quire/kv_spec.h"
#include "quire/status.h"

namespace quire::kvserver {

/// Counted for one server. Thread-safe.
struct DigestHolderCounters {
  Counter layers;   ///< Of a sequence, held since its start.
  Counter stopped;  ///< Sequences of which not all layers could be held.
};

class DigestHolder : public std::enable_shared_from_this<DigestHolder> {
 public:
  struct Parts {
    std::shared_ptr<DigestResidency> residency;
    std::shared_ptr<DigestHolderCounters> counters;
    Executor* executor = nullptr;
  };
  /// The stored segments of the sequence's contexts, and what to hold of them.
  struct Wanted {
    std::string tenant;
    KvSpec spec;
    HeldDigests shape;
    std::vector<std::shared_ptr<const std::vector<SegmentKey>>> chains;
  };
  /// Starts to read.
  static std::shared_ptr<DigestHolder> Start(Parts parts, Wanted wanted);

 private:
  DigestHolder(Parts parts, Wanted wanted);
  /// Has the layer that is `index`th held in the background, and then those after it.
  void Submit(size_t index);
  /// Whether the layer is held now, for every context.
  bool HoldLayer(uint32_t layer) QUIRE_EXCLUDES(mutex_);

  const Parts parts_;
  const Wanted wanted_;
  Mutex mutex_;
  std::vector<std::shared_ptr<const ResidentDigests>> held_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SESSION_DIGEST_HOLDER_H_
