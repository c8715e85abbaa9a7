// SPDX-License-Identifier: Apache-2.0
//
// For tests: makes the bytes of safetensors files, well-formed or not.
#ifndef QUIRE_GPUWORKER_MODEL_CHECKPOINT_SAFETENSORS_BUILDER_H_
#define QUIRE_GPUWORKER_MODEL_CHECKPOINT_SAFETENSORS_BUILDER_H_

#include <cstdint>
#include <cstring>
#include <fstream>
#include <span>
#include <string>
#include <string_view>

namespace quire::testing {

/// 8 bytes of `header_length`, the header text and the data.
inline std::string RawSafetensors(uint64_t header_length, std::string_view header,
                                  std::string_view data) {
  std::string bytes(sizeof header_length, '\0');
  std::memcpy(bytes.data(), &header_length, sizeof header_length);
  return bytes.append(header).append(data);
}

/// The same with the header's true length.
inline std::string Safetensors(std::string_view header, std::string_view data) {
  return RawSafetensors(header.size(), header, data);
}

inline std::span<const std::byte> AsBytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

inline void WriteFile(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace quire::testing

#endif  // QUIRE_GPUWORKER_MODEL_CHECKPOINT_SAFETENSORS_BUILDER_H_
