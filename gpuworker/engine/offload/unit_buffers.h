// SPDX-License-Identifier: Apache-2.0
//
// UnitBuffers: host memory for pages on their way to the server, a buffer for a page at all layers.
// The device writes to it by itself, so that who exports a page does not wait for the device
// (page_exporter.h). Such memory is slow to get: what comes back is kept for the next pages.
//
// It does not bound how many buffers are out; who takes them does (page_sender.h). A server in the
// same process may keep one for a while.
//
// Thread-safety: all methods may be called concurrently, and a buffer may come back on any thread.
// Ownership: buffers may outlive this; the device outlives them.
#ifndef QUIRE_GPUWORKER_ENGINE_OFFLOAD_UNIT_BUFFERS_H_
#define QUIRE_GPUWORKER_ENGINE_OFFLOAD_UNIT_BUFFERS_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "common/base/threads/mutex.h"
#include "gpuworker/device/device.h"
#include "quire/status.h"

namespace quire::worker {

struct UnitBuffer {
  PinnedBytes bytes;
  std::unique_ptr<DeviceEvent> arrived;  ///< Signals that the export to `bytes` is done.
};

class UnitBuffers {
 public:
  /// Buffers of `bytes`, more than 0, each.
  UnitBuffers(Device* device, size_t bytes)
      : device_(device), bytes_(bytes), idle_(std::make_shared<Idle>()) {}

  /// An unused buffer. It comes back when its last owner goes, once the device does not write to it
  /// any more. RESOURCE_EXHAUSTED as Device::AllocatePinned.
  StatusOr<std::shared_ptr<UnitBuffer>> Take();

 private:
  struct Idle {
    Mutex mutex;
    std::vector<std::unique_ptr<UnitBuffer>> buffers QUIRE_GUARDED_BY(mutex);
  };
  StatusOr<std::unique_ptr<UnitBuffer>> Make() const;

  Device* const device_;
  const size_t bytes_;
  const std::shared_ptr<Idle> idle_;  ///< Buffers that are out share it.
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_ENGINE_OFFLOAD_UNIT_BUFFERS_H_
