// SPDX-License-Identifier: Apache-2.0
//
// Conversion of errno values of volume files to statuses:
//   no space            RESOURCE_EXHAUSTED
//   no permission       PERMISSION_DENIED
//   anything else       UNAVAILABLE: the device; retrying may help
#ifndef QUIRE_KVSERVER_STORE_PAYLOAD_ENGINE_IO_STATUS_H_
#define QUIRE_KVSERVER_STORE_PAYLOAD_ENGINE_IO_STATUS_H_

#include <cerrno>
#include <cstring>
#include <string_view>

#include "quire/status.h"

namespace quire::kvserver {

/// `what` is the failed action and its object, such as "read 4096 bytes at offset 0 of FILE".
inline Status FromErrno(int error, std::string_view what) {
  const char* const reason = std::strerror(error);
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return ResourceExhausted("cannot ", what, ": ", reason,
                               "; free space on that file system or lower the SSD limit");
    case EACCES:
    case EPERM:
    case EROFS:
      return PermissionDenied("cannot ", what, ": ", reason,
                              "; give the server write access or choose another data directory");
    default:
      return Unavailable("cannot ", what, ": ", reason, "; check the device");
  }
}

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_PAYLOAD_ENGINE_IO_STATUS_H_
