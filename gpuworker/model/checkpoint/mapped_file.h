// SPDX-License-Identifier: Apache-2.0
//
// MappedFile: the bytes of a file, mapped read-only. The file must not be truncated while it is
// mapped.
// Ownership: unmaps at destruction; movable. Thread-safety: const use is safe.
#ifndef QUIRE_GPUWORKER_MODEL_CHECKPOINT_MAPPED_FILE_H_
#define QUIRE_GPUWORKER_MODEL_CHECKPOINT_MAPPED_FILE_H_

#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "common/base/status.h"

namespace quire::worker {

class MappedFile {
 public:
  /// NOT_FOUND when there is no such file, INVALID_ARGUMENT when it is not a regular file.
  static StatusOr<MappedFile> Open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::span<const std::byte> bytes_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_MODEL_CHECKPOINT_MAPPED_FILE_H_
