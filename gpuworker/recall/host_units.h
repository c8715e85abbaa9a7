// SPDX-License-Identifier: Apache-2.0
//
// HostUnits: the units of a recall that the host tier has. The want names them as held, so the
// server places them like the others and does not send them.
//
// Thread-safety: none. Ownership: keeps the bytes of its units.
#ifndef QUIRE_GPUWORKER_RECALL_HOST_UNITS_H_
#define QUIRE_GPUWORKER_RECALL_HOST_UNITS_H_

#include <cstdint>
#include <vector>

#include "common/page/unit_sizes.h"
#include "gpuworker/cache/host_tier.h"
#include "gpuworker/cache/page_table.h"
#include "gpuworker/recall/streamed_placement.h"
#include "quire/recall.h"
#include "quire/status.h"

namespace quire::worker {

class HostUnits {
 public:
  HostUnits() = default;
  /// Takes the units of `want` that `host` has in one of `codecs` and `table` lacks, and names them
  /// in `want`.
  HostUnits(const HostPages& host, const PageTable& table, const CodecSet& codecs, LayerWant* want);

  bool empty() const { return units_.empty(); }
  /// The units of `part`, of these sizes, in the order of its placements. Units were sent, or
  /// come from here where the part says that they are held. FAILED_PRECONDITION for a placement of
  /// another layer; INTERNAL for a held unit that is not one of these.
  StatusOr<ArrivedUnits> Merge(uint32_t layer, const RecallPart& part,
                               const UnitSizes& sizes) const;

 private:
  std::vector<HostPages::Unit> units_;  ///< Ascending by head and page.
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_RECALL_HOST_UNITS_H_
