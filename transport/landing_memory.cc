// SPDX-License-Identifier: Apache-2.0
#include "transport/landing_memory.h"

#include <algorithm>
#include <memory>

#include "common/base/checksum.h"
#include "common/base/unit_copy.h"

namespace quire {
namespace {

constexpr size_t kScratchBytes = size_t{1} << 20;

/// Reads pieces through one scratch buffer. A piece may be larger than that.
class ChecksumReader {
 public:
  ChecksumReader(MemoryAccess& access, size_t num_pieces, size_t scratch_bytes)
      : access_(access),
        scratch_bytes_(scratch_bytes),
        scratch_(std::make_unique_for_overwrite<std::byte[]>(scratch_bytes)),
        crc32c_(num_pieces, 0) {}

  Status Add(size_t piece, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const auto part = bytes.first(std::min(bytes.size(), scratch_bytes_ - batch_bytes_));
      batch_.push_back(part);
      piece_of_.push_back(piece);
      batch_bytes_ += part.size();
      bytes = bytes.subspan(part.size());
      if (batch_bytes_ == scratch_bytes_) QUIRE_RETURN_IF_ERROR(ReadBatch());
    }
    return OkStatus();
  }

  StatusOr<std::vector<uint32_t>> Finish() {
    QUIRE_RETURN_IF_ERROR(ReadBatch());
    return std::move(crc32c_);
  }

 private:
  Status ReadBatch() {
    if (batch_.empty()) return OkStatus();
    QUIRE_RETURN_IF_ERROR(access_.CopyFrom(batch_, {scratch_.get(), batch_bytes_}));
    const std::byte* at = scratch_.get();
    for (size_t i = 0; i < batch_.size(); ++i) {
      uint32_t& crc32c = crc32c_[piece_of_[i]];
      crc32c = Crc32c({at, batch_[i].size()}, crc32c);
      at += batch_[i].size();
    }
    batch_.clear();
    piece_of_.clear();
    batch_bytes_ = 0;
    return OkStatus();
  }

  MemoryAccess& access_;
  const size_t scratch_bytes_;
  const std::unique_ptr<std::byte[]> scratch_;
  std::vector<std::span<const std::byte>> batch_;
  std::vector<size_t> piece_of_;  ///< Pieces of batch_.
  size_t batch_bytes_ = 0;
  std::vector<uint32_t> crc32c_;
};

}  // namespace

StatusOr<std::vector<uint32_t>> CopyToLanding(const Payload& payload,
                                              std::span<const uint64_t> places,
                                              const LandingMemory& memory) {
  if (memory.is_host()) return CopyToPlaces(payload, places, memory.bytes);
  const std::vector<Slice>& slices = payload.slices();
  std::vector<uint32_t> crc32c;
  std::vector<CopyIn> copies;
  crc32c.reserve(slices.size());
  copies.reserve(slices.size());
  for (size_t i = 0; i < slices.size(); ++i) {
    crc32c.push_back(Crc32c(slices[i].bytes));
    copies.push_back({slices[i].bytes, memory.bytes.data() + places[i]});
  }
  QUIRE_RETURN_IF_ERROR(memory.access->CopyTo(copies));
  return crc32c;
}

StatusOr<std::vector<uint32_t>> ChecksumsBehind(
    MemoryAccess& access, std::span<const std::span<const std::byte>> pieces) {
  size_t all = 0;
  for (const auto& piece : pieces) all += piece.size();
  ChecksumReader reader(access, pieces.size(), std::min(all, kScratchBytes));
  for (size_t i = 0; i < pieces.size(); ++i) QUIRE_RETURN_IF_ERROR(reader.Add(i, pieces[i]));
  return reader.Finish();
}

}  // namespace quire
