// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/payload/write_batch.h"

#include <cerrno>
#include <string>
#include <utility>

#include "kvserver/store/payload/engine/io_status.h"

namespace quire::kvserver {
namespace {

/// Limit of gathered memory in flight.
constexpr uint64_t kMostGatheredBytes = 8 << 20;

}  // namespace

IoRequest* WriteBatch::Next() {
  if (!status_.ok() || plan_.left() == 0 || buffer_bytes_ >= kMostGatheredBytes) return nullptr;
  StatusOr<Write*> write = Plan();
  if (write.ok()) return *write;
  // Buffers of writes in flight will return.
  if (plan_.source_failure().ok() && buffer_bytes_ > 0) return nullptr;
  status_ = write.status();
  return nullptr;
}

StatusOr<WriteBatch::Write*> WriteBatch::Plan() {
  const uint64_t position = location_.bytes - plan_.left();
  const LocatedPiece place = FirstPiece(location_.runs, position, kMaxIoBytes);
  const VolumeFile* const volume = volumes_.Find(place.volume);
  QUIRE_ASSIGN_OR_RETURN(PlannedWrite planned,
                         plan_.Next(place.length, volume->alignment().memory, pool_));
  Write* const write = TakeRoom();
  static_cast<IoRequest&>(*write) =
      IoRequest::Write(volume->fd(), place.file_offset, planned.bytes);
  write->volume = volume;
  write->gathered = std::move(planned.buffer);
  buffer_bytes_ += write->gathered.bytes().size();
  return write;
}

WriteBatch::Write* WriteBatch::TakeRoom() {
  if (free_.empty()) return &room_.emplace_back();
  Write* const write = free_.back();
  free_.pop_back();
  return write;
}

void WriteBatch::Ended(IoRequest& request) {
  Write& write = static_cast<Write&>(request);
  ++totals_.writes;
  totals_.bytes += write.done;
  if (!write.complete()) {
    ++totals_.errors;
    if (status_.ok()) {
      status_ = FromErrno(write.error != 0 ? write.error : EIO,
                          "write " + std::to_string(write.length) + " bytes at offset " +
                              std::to_string(write.offset) + " of " + write.volume->path());
    }
  }
  buffer_bytes_ -= write.gathered.bytes().size();
  write.gathered = AlignedBuffer();
  free_.push_back(&write);
}

}  // namespace quire::kvserver
