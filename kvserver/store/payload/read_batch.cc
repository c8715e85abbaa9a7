// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/payload/read_batch.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kvserver/store/payload/engine/io_status.h"

namespace quire::kvserver {
namespace {

/// Limit of buffer memory in flight.
constexpr uint64_t kMostBufferBytes = 8 << 20;

bool IsAligned(const VolumeFile::Alignment& alignment, uint64_t offset,
               std::span<const std::byte> memory) {
  return offset % alignment.offset == 0 && memory.size() % alignment.offset == 0 &&
         reinterpret_cast<uintptr_t>(memory.data()) % alignment.memory == 0;
}

}  // namespace

IoRequest* ReadBatch::Next() {
  Piece* piece = nullptr;
  while (!left_.empty() && piece == nullptr && Plan(&piece)) continue;
  return piece;
}

bool ReadBatch::Plan(Piece** piece) {
  ReadRequest& request = left_.front();
  const uint64_t size = request.destination.size();
  if (position_ == 0) {
    request.status = OkStatus();
    request.parts = 1;  // The planning itself.
    if (size > request.location->bytes || request.offset > request.location->bytes - size) {
      EndFirst(InvalidArgument("read of ", size, " bytes at ", request.offset, " of a location of ",
                               request.location->bytes));
      return true;
    }
  }
  if (position_ == size || !request.status.ok()) {  // Planned completely, or a part has failed.
    EndFirst(request.status);
    return true;
  }
  const LocatedPiece located = FirstPiece(request.location->runs, request.offset + position_,
                                          std::min(size - position_, kMaxIoBytes));
  if (located.length == 0) {
    EndFirst(InvalidArgument("a location of ", request.location->bytes, " bytes has runs of ",
                             TotalBytes(request.location->runs)));
    return true;
  }
  return PlanAt(request, located, request.destination.subspan(position_, located.length), piece);
}

bool ReadBatch::PlanAt(ReadRequest& request, const LocatedPiece& located,
                       std::span<std::byte> destination, Piece** piece) {
  const VolumeFile* const volume = Volume(located.volume);
  if (volume == nullptr) {
    EndFirst(DataLoss("volume ", located.volume, " is missing; put the segment again"));
    return true;
  }
  const VolumeFile::Alignment& alignment = volume->alignment();
  if (IsAligned(alignment, located.file_offset, destination)) {
    *piece = Add(request, *volume, located.file_offset, destination, destination);
    return true;
  }
  const uint64_t begin = RoundDown(located.file_offset, alignment.offset);
  const uint64_t end = RoundUp(located.file_offset + located.length, alignment.offset);
  if (buffer_bytes_ > 0 && buffer_bytes_ + (end - begin) > kMostBufferBytes) return false;
  StatusOr<AlignedBuffer> buffer = pool_.Take(end - begin);
  if (!buffer.ok()) {
    if (buffer_bytes_ > 0) return false;  // Buffers in flight will return.
    EndFirst(buffer.status());
    return true;
  }
  *piece = Add(request, *volume, begin, buffer->bytes(), destination);
  (*piece)->skip = located.file_offset - begin;
  (*piece)->through = *std::move(buffer);
  buffer_bytes_ += end - begin;
  ++totals_.buffered;
  return true;
}

ReadBatch::Piece* ReadBatch::Add(ReadRequest& request, const VolumeFile& volume,
                                 uint64_t file_offset, std::span<std::byte> into,
                                 std::span<std::byte> destination) {
  if (free_.empty()) free_.push_back(&room_.emplace_back());
  Piece* const piece = free_.back();
  free_.pop_back();
  static_cast<IoRequest&>(*piece) = IoRequest::Read(volume.fd(), file_offset, into);
  piece->wanted = &request;
  piece->volume = &volume;
  piece->destination = destination;
  piece->skip = 0;
  position_ += destination.size();
  ++request.parts;
  return piece;
}

void ReadBatch::EndFirst(Status status) {
  ReadRequest& request = left_.front();
  request.status = std::move(status);
  left_ = left_.subspan(1);
  position_ = 0;
  PartDone(request);
}

void ReadBatch::PartDone(ReadRequest& request) {
  if (--request.parts == 0) done_(request);
}

const VolumeFile* ReadBatch::Volume(uint32_t number) {
  if (last_volume_ == nullptr || last_volume_->number() != number) {
    last_volume_ = volumes_.Find(number);
  }
  return last_volume_;
}

void ReadBatch::Ended(IoRequest& request) {
  Piece& piece = static_cast<Piece&>(request);
  ReadRequest& wanted = *piece.wanted;
  ++totals_.reads;
  totals_.bytes += piece.done;
  if (piece.error != 0) ++totals_.errors;
  Status status = Result(piece);
  const std::span<const std::byte> through = piece.through.bytes();
  if (!status.ok()) {
    if (wanted.status.ok()) wanted.status = std::move(status);
  } else if (!through.empty()) {
    std::memcpy(piece.destination.data(), through.data() + piece.skip, piece.destination.size());
  }
  buffer_bytes_ -= through.size();
  piece.through = AlignedBuffer();
  free_.push_back(&piece);
  PartDone(wanted);
}

Status ReadBatch::Result(const Piece& piece) {
  if (piece.error != 0) {
    return FromErrno(piece.error, "read " + std::to_string(piece.length) + " bytes at offset " +
                                      std::to_string(piece.offset) + " of " + piece.volume->path());
  }
  if (piece.done < piece.skip + piece.destination.size()) {
    return DataLoss(piece.volume->path(), " ends at ", piece.offset + piece.done, ", before the ",
                    piece.length, " bytes at offset ", piece.offset,
                    "; the file was cut, put the segment again");
  }
  return OkStatus();
}

}  // namespace quire::kvserver
