// SPDX-License-Identifier: Apache-2.0
//
// Checkpoint: the tensors of a model directory, from the files named in
// model.safetensors.index.json. Without that index they come from model.safetensors, and without
// either from pytorch_model.bin. Refused are an index that contradicts the files, other weights in
// the directory, and an adapter's directory. Ownership: keeps the files mapped; views borrow from
// it. Thread-safety: const use is safe. Errors: NOT_FOUND and INVALID_ARGUMENT naming the file and
// the tensor.
#ifndef QUIRE_GPUWORKER_MODEL_CHECKPOINT_CHECKPOINT_H_
#define QUIRE_GPUWORKER_MODEL_CHECKPOINT_CHECKPOINT_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpuworker/model/checkpoint/mapped_file.h"
#include "gpuworker/model/checkpoint/safetensors.h"
#include "quire/status.h"

namespace quire::worker {

class Checkpoint {
 public:
  static StatusOr<Checkpoint> Open(const std::string& directory);

  const TensorMap& tensors() const { return tensors_; }
  /// The file or index that was opened, for messages.
  const std::string& path() const { return path_; }

  /// SHA-256 over `settings` and every tensor's name, type, shape and bytes, in the order of names.
  /// `settings` has whatever else decides the model's numbers. The split into files does not
  /// matter.
  std::array<uint8_t, 32> Hash(std::string_view settings) const;

 private:
  explicit Checkpoint(std::string path) : path_(std::move(path)) {}
  static StatusOr<Checkpoint> OpenPickled(const std::string& directory);
  /// Maps `file` and takes its tensors; their names. INVALID_ARGUMENT when one is there already.
  StatusOr<std::vector<std::string>> AddFile(const std::string& file);
  Status AddShards(const std::string& directory, std::string_view index_text);

  std::string path_;
  std::vector<MappedFile> files_;
  TensorMap tensors_;
};

/// The shards' file names by tensor, from an index file's text. File names are plain: no
/// directories.
StatusOr<std::map<std::string, std::string>> ParseShardIndex(std::string_view text,
                                                             const std::string& name);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_MODEL_CHECKPOINT_CHECKPOINT_H_
