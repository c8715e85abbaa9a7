// SPDX-License-Identifier: Apache-2.0
//
// HeldDigests: the digests that a sequence asked to have in memory from its start. They are read in
// the background, layer by layer, and held until the sequence goes; a selection that comes before
// its layer has been read takes part in the reading (DigestResidency) and reads nothing twice. What
// finds no room is left to the lanes, which hold it at their first query if there is room then.
// Thread-safety: safe for concurrent use.
// Ownership: shared by the sequence and, while it runs, the task that reads; it ends the reading
// when the sequence goes. The executor outlives the start and every task; the store the executor.
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

/// What the sequences of a session hold from their start.
struct HeldDigestsShape {
  kernels::DigestKind kind = kernels::DigestKind::kMinMax;
  std::vector<uint32_t> layers;  ///< Distinct and managed, in the order in which they are read.
};

/// Counted for one server. Thread-safe.
struct HeldDigestsCounters {
  Counter layers;   ///< Of a sequence, held since its start.
  Counter stopped;  ///< Sequences of which not all layers could be held.
};

class HeldDigests : public std::enable_shared_from_this<HeldDigests> {
 public:
  struct Parts {
    std::shared_ptr<DigestResidency> residency;
    std::shared_ptr<HeldDigestsCounters> counters;
    Executor* executor = nullptr;
  };
  /// The stored segments of the sequence's contexts, and what to hold of them.
  struct Wanted {
    std::string tenant;
    KvSpec spec;
    HeldDigestsShape shape;
    std::vector<std::shared_ptr<const std::vector<SegmentKey>>> chains;
  };
  /// Starts to read.
  static std::shared_ptr<HeldDigests> Start(Parts parts, Wanted wanted);

 private:
  HeldDigests(Parts parts, Wanted wanted);
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

#endif  // QUIRE_KVSERVER_SESSION_HELD_DIGESTS_H_
