// SPDX-License-Identifier: Apache-2.0
//
// Checked values: the value format of payload tables. The bytes are followed by their CRC-32C as
// four little-endian bytes.
#ifndef QUIRE_KVSERVER_STORE_METADATA_CHECKED_VALUE_H_
#define QUIRE_KVSERVER_STORE_METADATA_CHECKED_VALUE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/base/memory/checksum.h"

namespace quire::kvserver {

inline std::string_view AsText(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline std::span<const std::byte> AsBytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

/// Encodes the trailer of a value.
inline std::array<char, 4> EncodeTrailer(uint32_t crc32c) {
  std::array<char, 4> out;
  for (int i = 0; i < 4; ++i) out[i] = static_cast<char>(crc32c >> (8 * i));
  return out;
}
inline std::string_view AsText(const std::array<char, 4>& trailer) {
  return {trailer.data(), trailer.size()};
}

struct CheckedBytes {
  std::span<const std::byte> bytes;  ///< A view into the value.
  uint32_t crc32c = 0;
};

/// The checksum that the trailer of `value` says. REQUIRES: at least 4 bytes.
inline uint32_t TrailerOf(std::string_view value) {
  uint32_t crc32c = 0;
  for (int i = 0; i < 4; ++i) {
    crc32c |= uint32_t{static_cast<unsigned char>(value[value.size() - 4 + i])} << (8 * i);
  }
  return crc32c;
}

/// The bytes of `value` without the trailer; nullopt when they do not match it.
inline std::optional<CheckedBytes> VerifyTrailer(std::string_view value) {
  if (value.size() < 4) return std::nullopt;
  const uint32_t stored = TrailerOf(value);
  const auto bytes = AsBytes(value.substr(0, value.size() - 4));
  if (Crc32c(bytes) != stored) return std::nullopt;
  return CheckedBytes{.bytes = bytes, .crc32c = stored};
}

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_METADATA_CHECKED_VALUE_H_
