// SPDX-License-Identifier: Apache-2.0
//
// SpreadUnits: gives a device the kernel that writes units into their slots, and decodes those that
// are encoded. Does not wait for it. Thread-safety: that of the device's stream. Ownership: what is
// named stays until the kernel has run.
#ifndef QUIRE_GPUWORKER_CACHE_SPREAD_UNITS_H_
#define QUIRE_GPUWORKER_CACHE_SPREAD_UNITS_H_

#include <cstddef>
#include <cstdint>

#include "gpuworker/device/device.h"
#include "kernels/api/transpose.h"
#include "quire/kv_spec.h"
#include "quire/status.h"
#include "quire/unit_codec.h"

namespace quire::worker {

/// Units of one codec where kernels read them, and the slots that they go into.
struct UnitsToSpread {
  const void* units = nullptr;             ///< One behind the other; unused with `addresses`.
  const void* const* addresses = nullptr;  ///< [count] or null: address of each unit.
  const kernels::UnitPlacement* places = nullptr;  ///< [count]
  size_t count = 0;
  UnitCodec codec = UnitCodec::kRaw;
  void* k_pool = nullptr;  ///< Out [num_slots][p][n_kv][d]
  void* v_pool = nullptr;  ///< Out likewise; unused for MLA
  uint32_t num_slots = 0;
  void* stream = nullptr;
};

[[nodiscard]] Status SpreadUnits(const KvSpec& spec, const UnitsToSpread& units, Device& device);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_CACHE_SPREAD_UNITS_H_
