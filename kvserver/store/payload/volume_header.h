// SPDX-License-Identifier: Apache-2.0
//
// VolumeHeader: the first block of a volume file, which says whose it is and how large. Bytes:
// docs/formats/volume.md.
#ifndef QUIRE_KVSERVER_STORE_PAYLOAD_VOLUME_HEADER_H_
#define QUIRE_KVSERVER_STORE_PAYLOAD_VOLUME_HEADER_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "quire/status.h"

namespace quire::kvserver {

struct VolumeHeader {
  /// The version that this code writes; it reads no newer one.
  static constexpr uint16_t kVersion = 1;
  /// Bytes that hold the fields; the rest of the first block is zero.
  static constexpr uint64_t kEncodedBytes = 30;

  uint32_t volume = 0;
  uint64_t size_bytes = 0;  ///< Of the file, header included; a multiple of kBlockBytes.
  friend bool operator==(const VolumeHeader&, const VolumeHeader&) = default;
};

/// One block.
std::string EncodeVolumeHeader(const VolumeHeader& header);
/// `encoded` is the beginning of a file. DATA_LOSS when it is no volume, too short or damaged,
/// FAILED_PRECONDITION when it is of a newer version; the message says which and what to do, and
/// leaves the file to be named by the caller.
StatusOr<VolumeHeader> DecodeVolumeHeader(std::string_view encoded);

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_PAYLOAD_VOLUME_HEADER_H_
