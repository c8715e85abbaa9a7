// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/engine/offload/unit_buffers.h"

#include <utility>

namespace quire::worker {

StatusOr<std::unique_ptr<UnitBuffer>> UnitBuffers::Make() const {
  auto buffer = std::make_unique<UnitBuffer>();
  QUIRE_ASSIGN_OR_RETURN(buffer->arrived, device_->MakeEvent());
  QUIRE_ASSIGN_OR_RETURN(buffer->bytes, device_->AllocatePinned(bytes_));
  return buffer;
}

StatusOr<std::shared_ptr<UnitBuffer>> UnitBuffers::Take() {
  std::unique_ptr<UnitBuffer> buffer;
  {
    MutexLock lock(idle_->mutex);
    if (!idle_->buffers.empty()) {
      buffer = std::move(idle_->buffers.back());
      idle_->buffers.pop_back();
    }
  }
  if (buffer == nullptr) {
    QUIRE_ASSIGN_OR_RETURN(buffer, Make());
  }
  return std::shared_ptr<UnitBuffer>(buffer.release(), [idle = idle_](UnitBuffer* returned) {
    (void)returned->arrived->Await();  // When the device has failed, nothing runs any more.
    MutexLock lock(idle->mutex);
    idle->buffers.emplace_back(returned);
  });
}

}  // namespace quire::worker
