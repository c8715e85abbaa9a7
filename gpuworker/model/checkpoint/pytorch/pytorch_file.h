// SPDX-License-Identifier: Apache-2.0
//
// Reader of the files that torch.save writes for a dictionary of tensors: an archive (stored_zip.h)
// with a pickle of names and places (tensor_pickle.h) and a file for each storage. No code of the
// file runs. Every tensor lies inside its storage, and every storage has the bytes that the pickle
// says. Ownership: views borrow the bytes. Thread-safety: pure.
// Errors: INVALID_ARGUMENT naming the file and the tensor.
#ifndef QUIRE_GPUWORKER_MODEL_CHECKPOINT_PYTORCH_PYTORCH_FILE_H_
#define QUIRE_GPUWORKER_MODEL_CHECKPOINT_PYTORCH_PYTORCH_FILE_H_

#include <cstddef>
#include <span>
#include <string>

#include "gpuworker/model/checkpoint/safetensors.h"
#include "quire/status.h"

namespace quire::worker {

StatusOr<TensorMap> ParsePytorchFile(std::span<const std::byte> bytes, const std::string& file);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_MODEL_CHECKPOINT_PYTORCH_PYTORCH_FILE_H_
