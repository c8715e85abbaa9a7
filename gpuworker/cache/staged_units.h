// SPDX-License-Identifier: Apache-2.0
//
// StagedUnits: the units of a payload at addresses that the device's kernels can read. On the CPU
// they are the payload's own slices; other devices (and slices that cut a unit or an element in
// two) cost one copy. Ownership: keeps the bytes alive. Thread-safety: a value type, movable.
#ifndef QUIRE_GPUWORKER_CACHE_STAGED_UNITS_H_
#define QUIRE_GPUWORKER_CACHE_STAGED_UNITS_H_

#include <cstdint>
#include <vector>

#include "gpuworker/device/device.h"
#include "gpuworker/device/device_list.h"
#include "quire/kv_spec.h"
#include "quire/payload.h"
#include "quire/status.h"
#include "quire/unit_codec.h"

namespace quire::worker {

class StagedUnits {
 public:
  /// DATA_LOSS when `payload` is not exactly `count` units in `codec`.
  static StatusOr<StagedUnits> Stage(const Payload& payload, size_t count, const KvSpec& spec,
                                     UnitCodec codec, Device* device);

  /// Device addresses, in payload order; the list itself lies where kernels read it.
  const void* const* addresses() const { return addresses_; }

 private:
  Status PutList(Device* device);

  Payload payload_;
  DeviceBuffer copy_;
  std::vector<const void*> units_;
  DeviceList<const void*> list_;
  const void* const* addresses_ = nullptr;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_CACHE_STAGED_UNITS_H_
