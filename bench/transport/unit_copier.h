// SPDX-License-Identifier: Apache-2.0
//
// UnitCopier: copies the units of a payload one after the other, and computes their checksums in
// the same pass. Thread-safety: none.
// Ownership: the payload outlives the copier.
#ifndef QUIRE_BENCH_TRANSPORT_UNIT_COPIER_H_
#define QUIRE_BENCH_TRANSPORT_UNIT_COPIER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "common/base/memory/checksum.h"
#include "common/base/memory/unit_copy.h"
#include "quire/payload.h"

namespace quire::bench {

class UnitCopier {
 public:
  UnitCopier(const Payload& payload, uint64_t unit_bytes)
      : slices_(payload.slices()), unit_bytes_(unit_bytes) {}

  /// Copies the next unit and returns its CRC-32C. REQUIRES: the payload has one more.
  uint32_t CopyNext(std::byte* to) {
    const std::span<const std::byte> rest = Rest();
    if (rest.size() < unit_bytes_) return CopyCut(to);
    Advance(unit_bytes_);
    return CopyWithCrc32c(rest.first(unit_bytes_), to, NextWhole());
  }

 private:
  std::span<const std::byte> Rest() const { return slices_[slice_].bytes.subspan(offset_); }

  void Advance(uint64_t bytes) {
    offset_ += bytes;
    if (offset_ < slices_[slice_].bytes.size()) return;
    ++slice_;
    offset_ = 0;
  }

  /// The beginning of the next unit; null if slices divide it.
  const std::byte* NextWhole() const {
    if (slice_ == slices_.size() || Rest().size() < unit_bytes_) return nullptr;
    return Rest().data();
  }

  /// Copies a unit that slices divide.
  uint32_t CopyCut(std::byte* to) {
    uint32_t crc32c = 0;
    for (uint64_t at = 0; at < unit_bytes_;) {
      const auto part = Rest().first(std::min<uint64_t>(unit_bytes_ - at, Rest().size()));
      std::memcpy(to + at, part.data(), part.size());
      crc32c = Crc32c(part, crc32c);
      at += part.size();
      Advance(part.size());
    }
    return crc32c;
  }

  const std::vector<Slice>& slices_;
  const uint64_t unit_bytes_;
  size_t slice_ = 0;
  uint64_t offset_ = 0;
};

}  // namespace quire::bench

#endif  // QUIRE_BENCH_TRANSPORT_UNIT_COPIER_H_
