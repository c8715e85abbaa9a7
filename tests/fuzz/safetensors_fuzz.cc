// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes ParseSafetensors and the conversion of accepted tensors.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gpuworker/model/checkpoint/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file =
      quire::worker::ParseSafetensors({reinterpret_cast<const std::byte*>(data), size}, "fuzz");
  if (!file.ok()) return 0;
  for (const auto& [name, tensor] : file->tensors) {
    std::vector<float> values(tensor.elements());
    // Refuses types other than floats; in any case every byte of the view must be readable.
    (void)quire::worker::ConvertToFloat(tensor, name, values.data());
  }
  return 0;
}
