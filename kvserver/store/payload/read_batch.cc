// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/payload/read_batch.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kvserver/store/payload/io_status.h"

namespace quire::kvserver {
namespace {

constexpr size_t kWaveRequests = 4096;
constexpr uint64_t kWaveBufferBytes = 8 << 20;

bool IsAligned(const VolumeFile::Alignment& alignment, uint64_t offset,
               std::span<const std::byte> memory) {
  return offset % alignment.offset == 0 && memory.size() % alignment.offset == 0 &&
         reinterpret_cast<uintptr_t>(memory.data()) % alignment.memory == 0;
}

}  // namespace

ReadBatch::ReadBatch(const VolumeSet& volumes, AlignedBufferPool& pool,
                     std::span<ReadRequest> requests)
    : volumes_(volumes), pool_(pool), left_(requests) {
  wave_.reserve(std::min(requests.size(), kWaveRequests));
  pieces_.reserve(wave_.capacity());
}

std::span<IoRequest> ReadBatch::Next() {
  wave_.clear();
  pieces_.clear();
  buffer_bytes_ = 0;
  while (!left_.empty() && wave_.size() < kWaveRequests && AddPiece()) {
  }
  return wave_;
}

bool ReadBatch::AddPiece() {
  ReadRequest& request = left_.front();
  const uint64_t size = request.destination.size();
  if (position_ == 0) {
    request.status = OkStatus();
    if (size > request.location->bytes || request.offset > request.location->bytes - size) {
      EndRequest(InvalidArgument("read of ", size, " bytes at ", request.offset,
                                 " of a location of ", request.location->bytes));
      return true;
    }
  }
  if (position_ == size || !request.status.ok()) {  // Whole, or a part failed in an earlier wave.
    EndRequest(request.status);
    return true;
  }
  const LocatedPiece located = FirstPiece(request.location->runs, request.offset + position_,
                                          std::min(size - position_, kMaxIoBytes));
  if (located.length == 0) {
    EndRequest(InvalidArgument("a location of ", request.location->bytes, " bytes has runs of ",
                               TotalBytes(request.location->runs)));
    return true;
  }
  return Plan(request, located, request.destination.subspan(position_, located.length));
}

bool ReadBatch::Plan(ReadRequest& request, const LocatedPiece& located,
                     std::span<std::byte> destination) {
  const VolumeFile* const volume = Volume(located.volume);
  if (volume == nullptr) {
    EndRequest(DataLoss("volume ", located.volume, " is missing; put the segment again"));
    return true;
  }
  const VolumeFile::Alignment& alignment = volume->alignment();
  Piece piece;
  piece.request = &request;
  piece.volume = volume;
  piece.destination = destination;
  if (IsAligned(alignment, located.file_offset, destination)) {
    Add(std::move(piece), located.file_offset, destination);
    return true;
  }
  const uint64_t begin = RoundDown(located.file_offset, alignment.offset);
  const uint64_t end = RoundUp(located.file_offset + located.length, alignment.offset);
  if (buffer_bytes_ > 0 && buffer_bytes_ + (end - begin) > kWaveBufferBytes) return false;
  StatusOr<AlignedBuffer> buffer = pool_.Take(end - begin);
  if (!buffer.ok()) {
    if (buffer_bytes_ > 0) return false;  // This wave's buffers come back before the next.
    EndRequest(buffer.status());
    return true;
  }
  piece.skip = located.file_offset - begin;
  piece.buffer = *std::move(buffer);
  buffer_bytes_ += end - begin;
  ++buffered_;
  const std::span<std::byte> into = piece.buffer.bytes();
  Add(std::move(piece), begin, into);
  return true;
}

void ReadBatch::Add(Piece piece, uint64_t file_offset, std::span<std::byte> into) {
  position_ += piece.destination.size();
  wave_.push_back(IoRequest::Read(piece.volume->fd(), file_offset, into));
  pieces_.push_back(std::move(piece));
}

void ReadBatch::EndRequest(Status status) {
  left_.front().status = std::move(status);
  left_ = left_.subspan(1);
  position_ = 0;
}

const VolumeFile* ReadBatch::Volume(uint32_t number) {
  if (last_volume_ == nullptr || last_volume_->number() != number) {
    last_volume_ = volumes_.Find(number);
  }
  return last_volume_;
}

void ReadBatch::Finish() {
  for (size_t i = 0; i < wave_.size(); ++i) {
    const Piece& piece = pieces_[i];
    Status status = Result(piece, wave_[i]);
    if (!status.ok()) {
      if (piece.request->status.ok()) piece.request->status = std::move(status);
    } else if (!piece.buffer.bytes().empty()) {
      std::memcpy(piece.destination.data(), piece.buffer.bytes().data() + piece.skip,
                  piece.destination.size());
    }
  }
}

Status ReadBatch::Result(const Piece& piece, const IoRequest& io) {
  if (io.error != 0) {
    return FromErrno(io.error, "read " + std::to_string(io.length) + " bytes at offset " +
                                   std::to_string(io.offset) + " of " + piece.volume->path());
  }
  if (io.done < piece.skip + piece.destination.size()) {
    return DataLoss(piece.volume->path(), " ends at ", io.offset + io.done, ", before the ",
                    io.length, " bytes at offset ", io.offset,
                    "; the file was cut, put the segment again");
  }
  return OkStatus();
}

}  // namespace quire::kvserver
