// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/shm_packet_reader.h"

#include <algorithm>
#include <cstring>

namespace quire {
namespace {

template <typename T>
const std::byte* CopyOut(const std::byte* from, size_t count, std::vector<T>* out) {
  out->resize(count);
  if (count > 0) std::memcpy(out->data(), from, count * sizeof(T));
  return from + count * sizeof(T);
}

}  // namespace

std::array<std::span<std::byte>, 2> ShmPacketReader::Room() {
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (end_ == 0 && buffer_.size() > kBufferBytes) {
    buffer_.resize(kBufferBytes);
    buffer_.shrink_to_fit();
  }
  if (end_ == buffer_.size()) buffer_.resize(2 * buffer_.size());
  std::span<std::byte> payload;
  if (missing_ > 0) {
    payload = {packet_.inline_bytes.get() + (packet_.header.bytes - missing_), missing_};
  }
  return {payload, std::span(buffer_).subspan(end_)};
}

Status ShmPacketReader::Take(size_t bytes, Sink& sink) {
  if (missing_ > 0) {
    const uint64_t payload = std::min<uint64_t>(bytes, missing_);
    missing_ -= payload;
    bytes -= payload;
    if (missing_ > 0) return OkStatus();
    QUIRE_RETURN_IF_ERROR(sink.OnPacket(packet_));
  }
  end_ += bytes;
  while (true) {
    QUIRE_ASSIGN_OR_RETURN(const bool whole, ReadPrefix());
    if (!whole) return OkStatus();
    TakeInline();
    if (missing_ > 0) return OkStatus();
    QUIRE_RETURN_IF_ERROR(sink.OnPacket(packet_));
  }
}

StatusOr<bool> ShmPacketReader::ReadPrefix() {
  const std::span<const std::byte> arrived =
      std::span<const std::byte>(buffer_).subspan(begin_, end_ - begin_);
  if (arrived.size() < sizeof(ShmHeader)) return false;
  QUIRE_ASSIGN_OR_RETURN(packet_.header, DecodeShmHeader(arrived, limits_));
  const ShmHeader& header = packet_.header;
  if (arrived.size() - sizeof header < header.prefix_bytes()) return false;
  const std::byte* at = arrived.data() + sizeof header;
  packet_.head.assign(reinterpret_cast<const char*>(at), header.head_bytes);
  at = CopyOut(at + header.head_bytes, header.num_slices, &packet_.slices);
  CopyOut(at, header.has_places() ? header.num_slices : 0, &packet_.places);
  begin_ += sizeof header + header.prefix_bytes();
  if (header.type == ShmPacketType::kFrame) {
    QUIRE_RETURN_IF_ERROR(CheckShmDescriptors(header, packet_.slices, limits_));
  }
  return true;
}

void ShmPacketReader::TakeInline() {
  packet_.inline_bytes.reset();
  missing_ = packet_.header.type == ShmPacketType::kFrame ? packet_.header.bytes : 0;
  if (missing_ == 0) return;
  packet_.inline_bytes.reset(new std::byte[missing_]);  // Not zeroed, as it is overwritten at once.
  const size_t here = std::min<uint64_t>(missing_, end_ - begin_);
  std::memcpy(packet_.inline_bytes.get(), buffer_.data() + begin_, here);
  begin_ += here;
  missing_ -= here;
}

}  // namespace quire
