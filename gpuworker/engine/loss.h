// SPDX-License-Identifier: Apache-2.0
//
// IsLoss: which errors a sequence may recover from. Pure.
#ifndef QUIRE_GPUWORKER_ENGINE_LOSS_H_
#define QUIRE_GPUWORKER_ENGINE_LOSS_H_

#include "gpuworker/device/device.h"
#include "quire/status.h"

namespace quire::worker {

/// The server is away, or has lost or mangled what the sequence depends on. A sequence that is
/// opened anew, or computed here, can go on: not one whose own device is full.
inline bool IsLoss(const Status& status) {
  if (IsOutOfDeviceMemory(status)) return false;
  switch (status.code()) {
    case StatusCode::kNotFound:
    case StatusCode::kUnavailable:
    case StatusCode::kDeadlineExceeded:
    case StatusCode::kDataLoss:
    case StatusCode::kFailedPrecondition:
    case StatusCode::kResourceExhausted:
    case StatusCode::kAborted:
      return true;
    default:
      return false;
  }
}

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_ENGINE_LOSS_H_
