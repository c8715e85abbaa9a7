// SPDX-License-Identifier: Apache-2.0
//
// VolumeHeader: the first block of a volume file, with its number and size. Bytes:
// docs/formats/volume.md.
#ifndef QUIRE_KVSERVER_STORE_PAYLOAD_VOLUME_VOLUME_HEADER_H_
#define QUIRE_KVSERVER_STORE_PAYLOAD_VOLUME_VOLUME_HEADER_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "quire/status.h"

namespace quire::kvserver {

struct VolumeHeader {
  /// Version that this code writes, and the newest that it reads.
  static constexpr uint16_t kVersion = 1;
  /// Encoded bytes; the rest of the first block is zero.
  static constexpr uint64_t kEncodedBytes = 30;

  uint32_t volume = 0;
  uint64_t size_bytes = 0;  ///< Size of the file with its header; a multiple of kBlockBytes.
  friend bool operator==(const VolumeHeader&, const VolumeHeader&) = default;
};

/// Encodes one block.
std::string EncodeVolumeHeader(const VolumeHeader& header);
/// Decodes the beginning of a file. DATA_LOSS when it is no volume, too short or damaged;
/// FAILED_PRECONDITION for a newer version. The message says what to do. The caller adds the file
/// name.
StatusOr<VolumeHeader> DecodeVolumeHeader(std::string_view encoded);

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_PAYLOAD_VOLUME_VOLUME_HEADER_H_
