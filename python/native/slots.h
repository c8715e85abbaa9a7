// SPDX-License-Identifier: Apache-2.0
//
// SlotArrays: arrays of the caller with a place for each slot of a session, one array for each
// sequence: [managed layers][n_kv][slots][unit].
//
// Thread-safety: made and destroyed with the GIL held; used without it.
#ifndef QUIRE_PYTHON_NATIVE_SLOTS_H_
#define QUIRE_PYTHON_NATIVE_SLOTS_H_

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "python/native/host_array.h"
#include "quire/recall.h"
#include "quire/status.h"

namespace quire::python {

class SessionCore;

class SlotArrays {
 public:
  /// One array, of sequence 0, or a list of them by sequence; None leaves a sequence out. Throws
  /// INVALID_ARGUMENT where an array does not fit the session, or cannot be written.
  SlotArrays(nanobind::handle arrays, const SessionCore& core);

  /// Throws INVALID_ARGUMENT when the sequence has no array.
  void CheckHas(uint32_t sequence) const;
  /// Copies the units of `part` to their places. UNAVAILABLE when they did not stay valid
  /// meanwhile: the slots' content is unknown then. INVALID_ARGUMENT for a sequence without an
  /// array, and for units that came encoded, before anything is written.
  [[nodiscard]] Status Take(const RecallPart& part);

 private:
  bool Has(uint32_t sequence) const;
  Status Check(const RecallPart& part) const;
  std::byte* PlaceOf(const Placement& placement);

  const std::vector<uint32_t> layers_;  ///< Ascending.
  const uint64_t num_heads_;
  const uint64_t unit_bytes_;
  std::vector<std::optional<HostArray>> arrays_;  ///< By sequence.
  std::vector<uint64_t> slots_;                   ///< Slots of each head; likewise.
};

}  // namespace quire::python

#endif  // QUIRE_PYTHON_NATIVE_SLOTS_H_
