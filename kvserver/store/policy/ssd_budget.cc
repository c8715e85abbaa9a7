// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/policy/ssd_budget.h"

#include <algorithm>

namespace quire::kvserver {
namespace {

constexpr uint64_t kMib = uint64_t{1} << 20;
/// Divisor of the limit for the metadata. Digests of one kind that was asked for are a
/// thirty-second of the payload.
constexpr uint64_t kMetadataShare = 8;
constexpr uint64_t kLeastMetadataBytes = 12 * kMib;
/// Divisor of a limit for which kLeastMetadataBytes is too much.
constexpr uint64_t kMostMetadataShare = 2;
/// Divisor of the bytes of all volumes for the largest one. Small volumes make a missing last one
/// cheap.
constexpr uint64_t kVolumeShare = 8;
constexpr uint64_t kLeastVolumeBytes = kMib;
constexpr uint64_t kVolumeUnit = 4096;
/// Divisor of the bytes of all volumes: the part kept for digests, fragments and rounding.
constexpr uint64_t kSlackShare = 16;
/// Divisor of the limit for the database's buffer, where kMetadataShare is that of the metadata.
constexpr uint64_t kBufferShare = 64;
constexpr uint64_t kLeastBufferBytes = kMib / 2;
constexpr uint64_t kMostBufferBytes = 64 * kMib;
/// Bytes of the database's info logs, its manifest and its options.
constexpr uint64_t kFixedBytes = kMib;

uint64_t MetadataBytes(uint64_t limit_bytes) {
  return std::min(limit_bytes / kMostMetadataShare,
                  std::max(limit_bytes / kMetadataShare, kLeastMetadataBytes));
}

}  // namespace

StatusOr<SsdBudget> DivideSsd(uint64_t limit_bytes, uint64_t largest_volume_bytes,
                              uint64_t present_bytes) {
  // Bytes that the database needs besides the present volumes.
  const uint64_t least_metadata = MetadataBytes(SsdBudget::kLeastBytes);
  const uint64_t least = std::max(SsdBudget::kLeastBytes, present_bytes + least_metadata);
  if (limit_bytes < least) {
    return InvalidArgument(
        "ssd_bytes is ", limit_bytes, ": give at least ", least,
        present_bytes + least_metadata < least
            ? ", which is the least that a store works in"
            : ", for the payload volumes that are there do not shrink; or another data directory");
  }
  SsdBudget budget{.limit_bytes = limit_bytes};
  budget.volumes_bytes =
      std::max(limit_bytes - MetadataBytes(limit_bytes), present_bytes) / kVolumeUnit * kVolumeUnit;
  budget.metadata_bytes = limit_bytes - budget.volumes_bytes;
  const uint64_t share = budget.volumes_bytes / kVolumeShare / kVolumeUnit * kVolumeUnit;
  budget.volume_bytes = std::min(largest_volume_bytes, std::max(share, kLeastVolumeBytes));
  budget.payload_bytes = budget.volumes_bytes - budget.volumes_bytes / kSlackShare;
  budget.buffer_bytes = std::clamp(budget.metadata_bytes / (kBufferShare / kMetadataShare),
                                   kLeastBufferBytes, kMostBufferBytes);
  return budget;
}

bool MetadataFits(uint64_t bytes, uint64_t metadata_bytes, uint64_t buffer_bytes) {
  const uint64_t reserved = kFixedBytes + 2 * buffer_bytes;
  return metadata_bytes > reserved && bytes <= (metadata_bytes - reserved) / 2;
}

}  // namespace quire::kvserver
