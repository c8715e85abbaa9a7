// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes DecodeVolumeHeader, on the input as it is and as a block with a corrected checksum of its
// fields. Accepted input must encode to the same bytes again.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "common/base/memory/checksum.h"
#include "kvserver/store/payload/volume/location.h"
#include "kvserver/store/payload/volume/volume_header.h"

namespace {

using quire::kvserver::kBlockBytes;
using quire::kvserver::VolumeHeader;

void Check(std::string_view encoded) {
  const auto header = quire::kvserver::DecodeVolumeHeader(encoded);
  if (!header.ok()) return;
  if (header->size_bytes <= kBlockBytes || header->size_bytes % kBlockBytes != 0) std::abort();
  if (quire::kvserver::EncodeVolumeHeader(*header) != encoded.substr(0, kBlockBytes)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string encoded(reinterpret_cast<const char*>(data), size);
  Check(encoded);
  encoded.resize(kBlockBytes, '\0');
  uint32_t crc;
  const size_t fields = VolumeHeader::kEncodedBytes - sizeof crc;
  crc = quire::Crc32c(std::as_bytes(std::span(encoded).first(fields)));
  std::memcpy(encoded.data() + fields, &crc, sizeof crc);
  std::fill(encoded.begin() + VolumeHeader::kEncodedBytes, encoded.end(), '\0');
  Check(encoded);
  return 0;
}
