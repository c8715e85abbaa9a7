// SPDX-License-Identifier: Apache-2.0
//
// Interprets the result of one system call for an IoRequest: ended, or to be continued. All engines
// share it, so they agree on short transfers. Thread-safety: pure functions of the request.
#ifndef QUIRE_KVSERVER_STORE_PAYLOAD_ENGINE_IO_PROGRESS_H_
#define QUIRE_KVSERVER_STORE_PAYLOAD_ENGINE_IO_PROGRESS_H_

#include <cerrno>
#include <cstdint>

#include "kvserver/store/payload/engine/io_engine.h"

namespace quire::kvserver {

/// Devices move whole sectors. A transfer that stops elsewhere has met the end of the file.
inline constexpr uint64_t kSectorBytes = 512;

/// Accounts for `result`, the bytes transferred or a negative errno value. Returns true when the
/// rest must be requested again.
[[nodiscard]] inline bool Continues(IoRequest& request, int64_t result) {
  if (result == -EINTR || result == -EAGAIN) return true;
  if (result < 0) {
    request.error = static_cast<int>(-result);
    return false;
  }
  request.done += static_cast<size_t>(result);
  if (request.done == request.length) return false;
  if (request.kind == IoRequest::Kind::kWrite) {
    if (result == 0)
      request.error = EIO;  // A device that takes nothing would take nothing next time.
    return result != 0;
  }
  return result != 0 && (request.offset + request.done) % kSectorBytes == 0;
}

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_PAYLOAD_ENGINE_IO_PROGRESS_H_
