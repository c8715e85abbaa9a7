// SPDX-License-Identifier: Apache-2.0
//
// Shared memory: memory of one process that others may read and never write. The owner maps a
// memory file (memfd) writable and then seals it. After that no process, not even the owner, can
// map it writable again, write to its descriptor, resize it or remove the seals. Readers get a
// read-only descriptor.
//
// Ownership: SharedMemory and ReadOnlyMapping unmap at destruction. A mapping in another process
// stays valid after that, and after the owner's death. Thread-safety: immutable once made. Readers
// and a writing owner need synchronisation of their own. Errors: RESOURCE_EXHAUSTED when the system
// refuses, INVALID_ARGUMENT for an unsuitable descriptor.
#ifndef QUIRE_COMMON_BASE_MEMORY_SHARED_MEMORY_H_
#define QUIRE_COMMON_BASE_MEMORY_SHARED_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "common/base/unique_fd.h"
#include "quire/status.h"

namespace quire {

/// Memory of this process that others may map. A view: the provider keeps both fields valid.
struct SharedMemoryView {
  std::span<const std::byte> bytes;  ///< Address here. The whole file, from its start.
  int fd = -1;                       ///< Read-only descriptor.
};

/// Seals the memory file `fd`, made with MFD_ALLOW_SEALING. Existing writable mappings stay.
[[nodiscard]] Status SealSharedMemory(int fd);

/// Opens another, read-only descriptor of the same memory file.
[[nodiscard]] StatusOr<UniqueFd> OpenReadOnly(int fd);

/// Sealed memory and its owner. The system provides pages on first use.
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
  /// Maps the first `bytes` of the file. INVALID_ARGUMENT when the file is shorter or could shrink:
  /// a read past its end kills the process.
  static StatusOr<std::unique_ptr<ReadOnlyMapping>> Map(int fd, uint64_t bytes);
  ~ReadOnlyMapping();
  ReadOnlyMapping(const ReadOnlyMapping&) = delete;
  ReadOnlyMapping& operator=(const ReadOnlyMapping&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  ReadOnlyMapping(std::span<std::byte> reserved, std::span<const std::byte> bytes)
      : reserved_(reserved), bytes_(bytes) {}

  const std::span<std::byte> reserved_;  ///< Address range around the bytes, for alignment.
  const std::span<const std::byte> bytes_;
};

}  // namespace quire

#endif  // QUIRE_COMMON_BASE_MEMORY_SHARED_MEMORY_H_
