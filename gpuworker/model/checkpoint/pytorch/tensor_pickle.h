// SPDX-License-Identifier: Apache-2.0
//
// ParseTensorPickle: the tensors that a pickle of PyTorch names. A pickle is a program. This reader
// knows the few instructions and names that a dictionary of tensors needs, and runs nothing:
//
//   names         collections.OrderedDict, torch._utils._rebuild_tensor_v2 and _rebuild_parameter,
//                 torch.FloatStorage and the other storages
//   instructions  of protocol 2: numbers, texts, tuples, dictionaries, memo, persistent ids
//
// Anything else is refused by name. Attributes of the dictionary (_metadata) are left alone. Time
// and memory are bounded by the pickle's length. Pure.
// Errors: INVALID_ARGUMENT naming the file, and what it has that is not read.
#ifndef QUIRE_GPUWORKER_MODEL_CHECKPOINT_PYTORCH_TENSOR_PICKLE_H_
#define QUIRE_GPUWORKER_MODEL_CHECKPOINT_PYTORCH_TENSOR_PICKLE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gpuworker/model/checkpoint/safetensors.h"
#include "quire/status.h"

namespace quire::worker {

/// A tensor as a part of a storage.
struct PickledTensor {
  std::string name = {};
  TensorType type = TensorType::kF32;
  std::string storage = {};          ///< Name of the storage.
  uint64_t storage_elements = 0;     ///< Elements of the whole storage.
  uint64_t offset = 0;               ///< First element in the storage.
  std::vector<uint64_t> shape = {};  ///< Row-major, without gaps.
};

/// Longest pickle that is read, in bytes.
inline constexpr uint64_t kMaxPickleBytes = 16 << 20;

StatusOr<std::vector<PickledTensor>> ParseTensorPickle(std::span<const std::byte> bytes,
                                                       const std::string& file);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_MODEL_CHECKPOINT_PYTORCH_TENSOR_PICKLE_H_
