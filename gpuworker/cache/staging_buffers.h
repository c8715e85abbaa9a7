// SPDX-License-Identifier: Apache-2.0
//
// StagingBuffers: how units go into their slots on a device that does not read the host's memory
// (spec A.5). The host copies units into pinned memory; from there they go to the device on the
// copy stream and into their slots on the convert stream, both beside whatever is computed. The
// host waits only for the buffer that it is about to fill: with two, one is filled while the other
// is converted; with one, nothing of a transfer begins before the conversion of the one before it
// has ended.
//
// What waits for what is in docs/design/0024. Thread-safety: Write may be called concurrently, for
// slots that differ. Ownership: owns the buffers; the device outlives it. The destructor waits
// until what was written is in its slots, so that these may go away.
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

namespace quire::worker {

/// The slots that units go into, and what others have to do with them.
struct SlotPools {
  void* k = nullptr;
  void* v = nullptr;
  uint32_t num_slots = 0;
  DeviceEvent* unread = nullptr;   ///< Nobody reads or writes what is written once it is passed.
  DeviceEvent* written = nullptr;  ///< Recorded behind what was written.
};

class StagingBuffers {
 public:
  struct Options {
    uint32_t buffers = 2;  ///< At least 1.
    uint32_t units = 0;    ///< Room of each, at least 1.
  };

  /// RESOURCE_EXHAUSTED when there is no memory for the buffers, of the device's or pinned.
  static StatusOr<std::unique_ptr<StagingBuffers>> Create(const KvSpec& spec,
                                                          const Options& options, Device* device);
  ~StagingBuffers();
  StagingBuffers(const StagingBuffers&) = delete;
  StagingBuffers& operator=(const StagingBuffers&) = delete;

  /// Gives the device `units`, one for each of `places`, to be put there. They are on their way at
  /// the return, and their bytes may change. DATA_LOSS for another number of units. After an error
  /// some may be on their way all the same, and pools.written behind only some of them.
  [[nodiscard]] Status Write(const Payload& units, std::span<const kernels::UnitPlacement> places,
                             const SlotPools& pools) QUIRE_EXCLUDES(mutex_);

 private:
  /// What one transfer takes: a list of places, and then the units.
  struct Buffer {
    PinnedBytes host;
    DeviceBuffer device;
    std::unique_ptr<DeviceEvent> arrived;  ///< The copy to `device` is done.
    std::unique_ptr<DeviceEvent> free;     ///< Nothing reads `host` or `device`.
  };

  StagingBuffers(const KvSpec& spec, const Options& options, Device* device);
  Status Allocate(Buffer* buffer);
  /// Waits until a buffer is nobody's.
  Buffer* Take() QUIRE_EXCLUDES(mutex_);
  void PutBack(Buffer* buffer) QUIRE_EXCLUDES(mutex_);
  /// No more units than a buffer has room for.
  Status WriteBy(Buffer& buffer, const Payload& units,
                 std::span<const kernels::UnitPlacement> places, const SlotPools& pools);
  /// Puts the units that have been copied to `buffer` into their slots.
  Status Convert(Buffer& buffer, size_t count, const SlotPools& pools);

  const KvSpec spec_;
  const uint32_t units_;
  Device* const device_;
  std::vector<Buffer> buffers_;  ///< Each is used by who has taken it.
  Mutex mutex_;
  CondVar put_back_;
  std::deque<Buffer*> idle_ QUIRE_GUARDED_BY(mutex_);  ///< Nobody's, in the order of their turns.
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_CACHE_STAGING_BUFFERS_H_
