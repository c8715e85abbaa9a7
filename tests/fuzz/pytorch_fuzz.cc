// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes ParsePytorchFile, whose seeds torch.save wrote, and its pickle alone. Every byte of an
// accepted tensor must be readable.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gpuworker/model/checkpoint/pytorch/pytorch_file.h"
#include "gpuworker/model/checkpoint/pytorch/tensor_pickle.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  (void)quire::worker::ParseTensorPickle(bytes, "fuzz");
  const auto tensors = quire::worker::ParsePytorchFile(bytes, "fuzz");
  if (!tensors.ok()) return 0;
  for (const auto& [name, tensor] : *tensors) {
    std::vector<float> values(tensor.elements());
    (void)quire::worker::ConvertToFloat(tensor, name, values.data());
  }
  return 0;
}
