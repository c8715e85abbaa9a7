// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/payload/engine/plain_engine.h"

#include <unistd.h>

#include <cerrno>

#include "kvserver/store/payload/engine/io_progress.h"

namespace quire::kvserver {

void PlainEngine::Finish(IoRequest& request) {
  ssize_t moved;
  do {
    std::byte* const buffer = request.buffer + request.done;
    const size_t length = request.length - request.done;
    const auto offset = static_cast<off_t>(request.offset + request.done);
    moved = request.kind == IoRequest::Kind::kRead ? pread(request.fd, buffer, length, offset)
                                                   : pwrite(request.fd, buffer, length, offset);
  } while (Continues(request, moved < 0 ? -errno : moved));
}

void PlainEngine::Run(IoStream& stream) {
  while (IoRequest* const request = stream.Next()) {
    if (request->length > 0) Finish(*request);
    stream.Ended(*request);
  }
}

int PlainEngine::Sync(int fd) {
  while (fdatasync(fd) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

}  // namespace quire::kvserver
