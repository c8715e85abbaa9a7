// SPDX-License-Identifier: Apache-2.0
//
// Disk: names, sizes and syncs of files and directories, as the store needs them. It reports the
// system's errors as errno values and decides nothing. Payload moves through an IoEngine, on
// descriptors of a Disk.
//
// Durability is that of POSIX and no more. Bytes and size of a file are durable after Sync of the
// file. A name is durable after Sync of its directory. The helpers below order the steps so that a
// power failure leaves a directory or small file intact.
//
// Every implementation passes testing/disk_conformance.h.
//
// Ownership: a descriptor is open until Close or the end of its Disk. Thread-safety: every
// implementation may be called concurrently. Units: bytes. Errors: functions that return int give 0
// or an errno value unless they say more.
#ifndef QUIRE_KVSERVER_STORE_PAYLOAD_DISK_H_
#define QUIRE_KVSERVER_STORE_PAYLOAD_DISK_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quire::kvserver {

struct DiskEntry {
  bool is_directory = false;
  uint64_t size_bytes = 0;
  /// Identity of a file: equal for all its names and descriptors, and for no other file.
  uint64_t file = 0;
};

class Disk {
 public:
  virtual ~Disk() = default;

  /// Opens a file or a directory with the flags of open(2). Returns a descriptor, or a negative
  /// errno value.
  virtual int Open(const std::string& path, int flags) = 0;
  virtual void Close(int fd) = 0;
  virtual int Examine(const std::string& path, DiskEntry* entry) = 0;
  virtual int Examine(int fd, DiskEntry* entry) = 0;

  /// Returns the bytes read, fewer than requested only at the end of the file; or a negative errno
  /// value.
  virtual int64_t Read(int fd, uint64_t offset, std::span<std::byte> into) = 0;
  /// Writes all of `bytes`, or returns an error.
  virtual int Write(int fd, uint64_t offset, std::span<const std::byte> bytes) = 0;
  /// Allocates the space of the first `bytes` of the file, and extends it to at least that size.
  virtual int Allocate(int fd, uint64_t bytes) = 0;
  virtual int Truncate(int fd, uint64_t bytes) = 0;
  /// Makes the bytes and the size of a file durable, or the names in a directory.
  [[nodiscard]] virtual int Sync(int fd) = 0;
  /// Locks the file against other processes, until Close. EWOULDBLOCK when another process has the
  /// lock.
  virtual int Lock(int fd) = 0;
  /// Switches direct I/O on or off. EINVAL when the file system has none.
  virtual int SetDirect(int fd, bool direct) = 0;

  /// EEXIST when the name exists.
  virtual int MakeDirectory(const std::string& path) = 0;
  /// Names in a directory, without "." and "..", in no order.
  virtual int List(const std::string& path, std::vector<std::string>* names) = 0;
  /// Renames within one directory and replaces an existing file. Atomic.
  virtual int Rename(const std::string& from, const std::string& to) = 0;
  /// Removes a file, or an empty directory.
  virtual int Remove(const std::string& path) = 0;
  /// Free bytes of the file system of `path`.
  virtual int FreeBytes(const std::string& path, uint64_t* bytes) = 0;
};

/// The machine's disk.
Disk& SystemDisk();

/// Owns a descriptor and closes it at destruction. May hold an error instead.
class DiskFile {
 public:
  DiskFile(Disk& disk, const std::string& path, int flags)
      : disk_(&disk), fd_(disk.Open(path, flags)) {}
  ~DiskFile() {
    if (fd_ >= 0) disk_->Close(fd_);
  }
  DiskFile(DiskFile&& other) noexcept : disk_(other.disk_), fd_(std::exchange(other.fd_, -1)) {}
  DiskFile& operator=(DiskFile&&) = delete;

  bool ok() const { return fd_ >= 0; }
  /// REQUIRES: not ok().
  int error() const { return -fd_; }
  int fd() const { return fd_; }

 private:
  Disk* disk_;
  int fd_;
};

/// The directory part of a path: "." for a bare name.
std::string ParentDirectory(const std::string& path);

/// Makes the names in a directory durable.
[[nodiscard]] int SyncDirectory(Disk& disk, const std::string& path);

/// Makes a directory and its missing parents. Returns 0 once each is durable in its parent, also
/// when another process died after making it. EEXIST when one of the names is a file.
[[nodiscard]] int MakeDurableDirectory(Disk& disk, const std::string& path);

/// Writes `text` to `path`. A power failure leaves the earlier contents or all of the new ones.
/// Durable when this returns 0.
[[nodiscard]] int WriteDurableFile(Disk& disk, const std::string& path, std::string_view text);

/// Reads a file of at most `most` bytes; EFBIG when it is longer.
[[nodiscard]] int ReadSmallFile(Disk& disk, const std::string& path, size_t most,
                                std::string* text);

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_PAYLOAD_DISK_H_
