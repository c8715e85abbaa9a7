// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/payload/volume/volume_header.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "common/base/memory/checksum.h"
#include "kvserver/store/byte_codec.h"
#include "kvserver/store/payload/volume/location.h"

namespace quire::kvserver {
namespace {

constexpr std::string_view kMagic = "QVOL";
constexpr std::string_view kRemedy =
    "; restore it from a backup, or move it away to lose only what it held";

uint32_t ChecksumOf(std::string_view bytes) { return Crc32c(std::as_bytes(std::span(bytes))); }

}  // namespace

std::string EncodeVolumeHeader(const VolumeHeader& header) {
  ByteWriter writer;
  writer.Raw(kMagic);
  writer.Number(VolumeHeader::kVersion);
  writer.Number(static_cast<uint32_t>(kBlockBytes));
  writer.Number(header.volume);
  writer.Number(uint32_t{0});
  writer.Number(header.size_bytes);
  writer.Number(ChecksumOf(writer.bytes()));
  std::string block = writer.Take();
  block.resize(kBlockBytes, '\0');
  return block;
}

StatusOr<VolumeHeader> DecodeVolumeHeader(std::string_view encoded) {
  if (encoded.size() < kBlockBytes) {
    return DataLoss("the volume header is cut off after ", encoded.size(), " of ", kBlockBytes,
                    " bytes", kRemedy);
  }
  if (!encoded.starts_with(kMagic)) {
    return DataLoss("not a volume: it does not begin with ", kMagic, kRemedy);
  }
  ByteReader reader(encoded.substr(kMagic.size(), VolumeHeader::kEncodedBytes - kMagic.size()));
  const auto version = reader.Number<uint16_t>();
  if (version > VolumeHeader::kVersion) {
    return FailedPrecondition("the volume has format version ", version,
                              ", this server reads up to ", VolumeHeader::kVersion,
                              "; upgrade the server");
  }
  const auto block_bytes = reader.Number<uint32_t>();
  VolumeHeader header;
  header.volume = reader.Number<uint32_t>();
  const auto reserved = reader.Number<uint32_t>();
  header.size_bytes = reader.Number<uint64_t>();
  const std::string_view fields = encoded.substr(0, VolumeHeader::kEncodedBytes - sizeof(uint32_t));
  const bool zeros = std::ranges::all_of(
      encoded.substr(VolumeHeader::kEncodedBytes, kBlockBytes - VolumeHeader::kEncodedBytes),
      [](char byte) { return byte == '\0'; });
  if (reader.Number<uint32_t>() != ChecksumOf(fields) || !zeros) {
    return DataLoss("the volume header fails its checksum", kRemedy);
  }
  const bool possible = version == VolumeHeader::kVersion && block_bytes == kBlockBytes &&
                        reserved == 0 && header.size_bytes % kBlockBytes == 0 &&
                        header.size_bytes > kBlockBytes;
  if (!possible) return DataLoss("the volume header has impossible fields", kRemedy);
  return header;
}

}  // namespace quire::kvserver
