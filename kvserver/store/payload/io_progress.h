// SPDX-License-Identifier: Apache-2.0
//
// What the result of one system call means for an IoRequest: ended, or go on from where it is.
// Shared by the engines, so that they agree on short transfers.
// Thread-safety: pure functions of the request.
#ifndef QUIRE_KVSERVER_STORE_PAYLOAD_IO_PROGRESS_H_
#define QUIRE_KVSERVER_STORE_PAYLOAD_IO_PROGRESS_H_

#include <cerrno>
#include <cstdint>

#include "kvserver/store/payload/io_engine.h"

namespace quire::kvserver {

/// A transfer that stops elsewhere has met the end of the file: devices move whole sectors.
inline constexpr uint64_t kSectorBytes = 512;

/// Accounts for `result`, the bytes that a call moved or a negative errno value. Returns whether
/// the rest must be asked for again.
[[nodiscard]] inline bool Continues(IoRequest& request, int64_t result) {
  if (result == -EINTR || result == -EAGAIN) return true;
  if (result < 0) {
    request.error = static_cast<int>(-result);
    return false;
  }
  request.done += static_cast<size_t>(result);
  if (request.done == request.length) return false;
  if (request.kind == IoRequest::Kind::kWrite) {
    if (result == 0) request.error = EIO;  // A device that takes nothing takes nothing next time.
    return result != 0;
  }
  return result != 0 && (request.offset + request.done) % kSectorBytes == 0;
}

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_PAYLOAD_IO_PROGRESS_H_
