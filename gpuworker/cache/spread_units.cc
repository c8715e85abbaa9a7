// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/cache/spread_units.h"

#include "kernels/api/place_units.h"
#include "quire/layout.h"

namespace quire::worker {
namespace {

Status SpreadRaw(const KvSpec& spec, const UnitsToSpread& units, Device& device) {
  return ToStatus(device.kernels().hnd_to_nhd({.units = units.units,
                                               .unit_ptrs = units.addresses,
                                               .placements = units.places,
                                               .k_pool = units.k_pool,
                                               .v_pool = units.v_pool,
                                               .num_slots = units.num_slots,
                                               .n_units = static_cast<int64_t>(units.count),
                                               .page_tokens = spec.page_tokens,
                                               .n_kv = spec.num_kv_heads,
                                               .head_dim = spec.key_dim(),
                                               .has_values = spec.has_values(),
                                               .dtype = spec.dtype,
                                               .stream = units.stream}),
                  "hnd_to_nhd");
}

}  // namespace

Status SpreadUnits(const KvSpec& spec, const UnitsToSpread& units, Device& device) {
  if (units.codec == UnitCodec::kRaw) return SpreadRaw(spec, units, device);
  return ToStatus(device.kernels().place_units({.encoded = units.units,
                                                .unit_ptrs = units.addresses,
                                                .placements = units.places,
                                                .k_pool = units.k_pool,
                                                .v_pool = units.v_pool,
                                                .num_slots = units.num_slots,
                                                .n_units = static_cast<int64_t>(units.count),
                                                .n_kv = spec.num_kv_heads,
                                                .shape = ShapeOf(spec),
                                                .codec = units.codec,
                                                .stream = units.stream}),
                  "place_units");
}

}  // namespace quire::worker
