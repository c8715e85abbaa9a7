// SPDX-License-Identifier: Apache-2.0
//
// Shared memory: memory of one process that others may read and never write. It is a memory file
// (memfd) that its owner maps writable and then seals: from then on nobody, the owner included, can
// map it writable once more, write to its descriptor, resize it or take the seals away, however the
// descriptor was opened. Readers get a descriptor that is read only besides.
//
// Ownership: SharedMemory and ReadOnlyMapping unmap at destruction; a mapping of another process
// stays whole after that, and after the owner's death. Thread-safety: constant once made; who reads
// bytes while their owner changes them must be told by other means when not to.
// Errors: RESOURCE_EXHAUSTED when the system refuses, INVALID_ARGUMENT for a descriptor that is not
// what it should be.
#ifndef QUIRE_COMMON_BASE_SHARED_MEMORY_H_
#define QUIRE_COMMON_BASE_SHARED_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "common/base/unique_fd.h"
#include "quire/status.h"

namespace quire {

/// Memory of this process that others may map. A view: whoever gave it keeps both.
struct SharedMemoryView {
  std::span<const std::byte> bytes;  ///< Where it lies here; the whole file, from its start.
  int fd = -1;                       ///< Read only.
};

/// Seals the memory file `fd`, made with MFD_ALLOW_SEALING. Writable mappings that exist stay.
[[nodiscard]] Status SealSharedMemory(int fd);

/// Another descriptor of the same memory file, read only.
[[nodiscard]] StatusOr<UniqueFd> OpenReadOnly(int fd);

/// Sealed memory and its owner. Pages are taken from the system when they are first used.
class SharedMemory {
 public:
  /// REQUIRES: bytes > 0.
  static StatusOr<std::unique_ptr<SharedMemory>> Create(const char* name, uint64_t bytes);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  std::span<std::byte> bytes() { return bytes_; }
  SharedMemoryView view() const { return {.bytes = bytes_, .fd = read_only_.get()}; }

 private:
  SharedMemory() = default;

  std::span<std::byte> bytes_;
  UniqueFd read_only_;
};

/// Shared memory of another process.
class ReadOnlyMapping {
 public:
  /// Maps the first `bytes` of the file. INVALID_ARGUMENT when it is shorter or could become
  /// shorter: reading past the end of a file ends a process.
  static StatusOr<std::unique_ptr<ReadOnlyMapping>> Map(int fd, uint64_t bytes);
  ~ReadOnlyMapping();
  ReadOnlyMapping(const ReadOnlyMapping&) = delete;
  ReadOnlyMapping& operator=(const ReadOnlyMapping&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  ReadOnlyMapping(std::span<std::byte> reserved, std::span<const std::byte> bytes)
      : reserved_(reserved), bytes_(bytes) {}

  const std::span<std::byte> reserved_;  ///< Addresses around the bytes, so that they are aligned.
  const std::span<const std::byte> bytes_;
};

}  // namespace quire

#endif  // QUIRE_COMMON_BASE_SHARED_MEMORY_H_
