// SPDX-License-Identifier: Apache-2.0
//
// JointStaging: moves recalled units of several sequences into their slots, by one copy and one
// launch for all that came since the last. Otherwise as StagingBuffers: the copy stream and the
// convert stream run beside the compute stream, and the host waits only for a buffer that it fills.
//
// Units are in flight after Launch only. Call it, and hold kCompute for written(), before attention
// reads them, and before their slots or `unread` go away.
//
// Thread-safety: methods may be called concurrently, Write for different slots.
// Ownership: owns the buffers; the device outlives it. The destructor waits until nothing uses
// them.
#ifndef QUIRE_GPUWORKER_CACHE_JOINT_STAGING_H_
#define QUIRE_GPUWORKER_CACHE_JOINT_STAGING_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "common/base/threads/mutex.h"
#include "gpuworker/device/device.h"
#include "kernels/api/transpose.h"
#include "quire/kv_spec.h"
#include "quire/payload.h"
#include "quire/status.h"

namespace quire::worker {

class JointStaging {
 public:
  static StatusOr<std::unique_ptr<JointStaging>> Create(const KvSpec& spec, Device* device);
  ~JointStaging();
  JointStaging(const JointStaging&) = delete;
  JointStaging& operator=(const JointStaging&) = delete;

  /// Takes raw units, one for each of `places`; the caller may reuse the bytes at the return. Once
  /// `unread` is passed, the places may be written. A unit replaces one that was taken for the same
  /// place and not launched. DATA_LOSS for another number of units.
  [[nodiscard]] Status Write(const Payload& units, std::span<const kernels::UnitAddress> places,
                             DeviceEvent* unread) QUIRE_EXCLUDES(mutex_);
  /// Gives the device what was taken.
  [[nodiscard]] Status Launch() QUIRE_EXCLUDES(mutex_);
  /// Passed once everything that was launched is in its slots.
  DeviceEvent& written() { return *written_; }

 private:
  struct Buffer {
    size_t capacity = 0;  ///< Units.
    PinnedBytes host;     ///< Units, then their places.
    DeviceBuffer device;
    std::unique_ptr<DeviceEvent> arrived;  ///< Recorded after the copy to `device`.
    std::unique_ptr<DeviceEvent> free;     ///< Once passed, nothing reads `host` or `device`.
    std::vector<kernels::UnitAddress> places = {};
    std::unordered_map<const void*, size_t> index =
        {};  ///< Indices of places, by their keys' address.
    std::vector<DeviceEvent*> unread = {};
  };

  JointStaging(const KvSpec& spec, Device* device);
  /// A buffer with room in filling_.
  Status ReserveRoom() QUIRE_REQUIRES(mutex_);
  StatusOr<std::unique_ptr<Buffer>> TakeBuffer() QUIRE_REQUIRES(mutex_);
  Status Enlarge(Buffer* buffer) QUIRE_REQUIRES(mutex_);
  size_t BytesOf(size_t units) const;
  Status LaunchFilling() QUIRE_REQUIRES(mutex_);
  Status Convert(Buffer& buffer) QUIRE_REQUIRES(mutex_);

  const KvSpec spec_;
  Device* const device_;
  const size_t most_buffers_;
  std::unique_ptr<DeviceEvent> written_;
  Mutex mutex_;
  std::unique_ptr<Buffer> filling_ QUIRE_GUARDED_BY(mutex_);  ///< Null for none.
  /// In the order of their launches.
  std::deque<std::unique_ptr<Buffer>> launched_ QUIRE_GUARDED_BY(mutex_);
  size_t capacity_ QUIRE_GUARDED_BY(mutex_);   ///< Units of the next buffer.
  size_t bytes_ QUIRE_GUARDED_BY(mutex_) = 0;  ///< Bytes of all buffers.
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_CACHE_JOINT_STAGING_H_
