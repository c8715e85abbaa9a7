// SPDX-License-Identifier: Apache-2.0
//
// StagingBuffers: moves units into their slots on a device that cannot read host memory. The host
// copies units into pinned memory. The copy stream moves them to the device, and the convert stream
// into their slots. Both run beside the compute stream. The host waits only for the buffer that it
// fills next. With two buffers, one is filled while the other is converted. With one buffer,
// transfers do not overlap.
//
// The order of events is in docs/design/0024. Thread-safety: Write may be called concurrently, for
// different slots. Ownership: owns the buffers; the device outlives it. The destructor waits until
// all units are in their slots; slots may be freed afterwards.
#ifndef QUIRE_GPUWORKER_CACHE_STAGING_BUFFERS_H_
#define QUIRE_GPUWORKER_CACHE_STAGING_BUFFERS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "common/base/threads/mutex.h"
#include "gpuworker/device/device.h"
#include "kernels/api/transpose.h"
#include "quire/kv_spec.h"
#include "quire/payload.h"
#include "quire/status.h"
#include "quire/unit_codec.h"

namespace quire::worker {

/// The slots that units go into, and events that order access to them.
struct SlotPools {
  void* k = nullptr;
  void* v = nullptr;
  uint32_t num_slots = 0;
  DeviceEvent* unread = nullptr;   ///< Once passed, the slots to be written are idle.
  DeviceEvent* written = nullptr;  ///< Recorded after the writes.
};

class StagingBuffers {
 public:
  struct Options {
    uint32_t buffers = 2;  ///< At least 1.
    uint32_t units = 0;    ///< Units that fit in each, at least 1.
  };

  /// RESOURCE_EXHAUSTED when there is no memory for the buffers, of the device's or pinned.
  static StatusOr<std::unique_ptr<StagingBuffers>> Create(const KvSpec& spec,
                                                          const Options& options, Device* device);
  ~StagingBuffers();
  StagingBuffers(const StagingBuffers&) = delete;
  StagingBuffers& operator=(const StagingBuffers&) = delete;

  /// Starts to move `units` into `places`, one unit for each place, all in `codec`. The caller may
  /// reuse the bytes at the return. DATA_LOSS for another number of units, or for units larger than
  /// raw ones. After an error some units may be in flight, and pools.written may cover only some of
  /// them.
  [[nodiscard]] Status Write(const Payload& units, UnitCodec codec,
                             std::span<const kernels::UnitPlacement> places, const SlotPools& pools)
      QUIRE_EXCLUDES(mutex_);

 private:
  /// Memory of one transfer: a list of places, then the units.
  struct Buffer {
    PinnedBytes host;
    DeviceBuffer device;
    std::unique_ptr<DeviceEvent> arrived;  ///< Recorded after the copy to `device`.
    std::unique_ptr<DeviceEvent> free;     ///< Once passed, nothing reads `host` or `device`.
  };

  StagingBuffers(const KvSpec& spec, const Options& options, Device* device);
  Status Allocate(Buffer* buffer);
  /// Waits until a buffer is idle.
  Buffer* Take() QUIRE_EXCLUDES(mutex_);
  void PutBack(Buffer* buffer) QUIRE_EXCLUDES(mutex_);
  /// Writes through one buffer, which has room for all of `units`.
  Status WriteBy(Buffer& buffer, const Payload& units, UnitCodec codec,
                 std::span<const kernels::UnitPlacement> places, const SlotPools& pools);
  /// Puts the units that have been copied to `buffer` into their slots.
  Status Convert(Buffer& buffer, UnitCodec codec, size_t count, const SlotPools& pools);

  const KvSpec spec_;
  const uint32_t units_;
  Device* const device_;
  std::vector<Buffer> buffers_;  ///< Used by the thread that took it.
  Mutex mutex_;
  CondVar put_back_;
  std::deque<Buffer*> idle_ QUIRE_GUARDED_BY(mutex_);  ///< Next to be taken first.
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_CACHE_STAGING_BUFFERS_H_
