// SPDX-License-Identifier: Apache-2.0
//
// Disk: the names, sizes and syncs of files and directories, as the store needs them. It reports
// the system's errors as errno values and decides nothing. Payload moves through an IoEngine, on
// descriptors that a Disk opened.
//
// Durability is that of POSIX and no more: the bytes and the size of a file are on the device after
// Sync of the file, a name is there after Sync of the directory that it is in. The helpers below
// make a directory or a small file in an order that a power failure cannot turn into a surprise.
//
// An implementation is done when it passes testing/disk_conformance.h.
//
// Ownership: a descriptor is open until Close, or until its Disk goes.
// Thread-safety: every implementation may be called concurrently.
// Units: bytes. Errors: functions that return int give 0 or an errno value unless they say more.
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
  uint64_t file = 0;  ///< The same for all names and descriptors of a file, and for no other.
};

class Disk {
 public:
  virtual ~Disk() = default;

  /// Opens a file or a directory with the flags of open(2). A descriptor, or a negative errno
  /// value.
  virtual int Open(const std::string& path, int flags) = 0;
  virtual void Close(int fd) = 0;
  virtual int Examine(const std::string& path, DiskEntry* entry) = 0;
  virtual int Examine(int fd, DiskEntry* entry) = 0;

  /// Bytes read, fewer than asked for only at the end of the file; or a negative errno value.
  virtual int64_t Read(int fd, uint64_t offset, std::span<std::byte> into) = 0;
  /// Writes all of `bytes`, or returns an error.
  virtual int Write(int fd, uint64_t offset, std::span<const std::byte> bytes) = 0;
  /// Takes the space of the first `bytes` of the file, which is at least so long afterwards.
  virtual int Allocate(int fd, uint64_t bytes) = 0;
  virtual int Truncate(int fd, uint64_t bytes) = 0;
  /// Makes the bytes and the size of a file durable, or the names in a directory.
  [[nodiscard]] virtual int Sync(int fd) = 0;
  /// Keeps other processes from locking the file; EWOULDBLOCK when one has. Ends with Close.
  virtual int Lock(int fd) = 0;
  /// Switches direct I/O on or off. EINVAL where files have none.
  virtual int SetDirect(int fd, bool direct) = 0;

  /// EEXIST when there is something under the name.
  virtual int MakeDirectory(const std::string& path) = 0;
  /// Names in a directory, without "." and "..", in no order.
  virtual int List(const std::string& path, std::vector<std::string>* names) = 0;
  /// Renames within one directory; replaces what has the new name. Atomic.
  virtual int Rename(const std::string& from, const std::string& to) = 0;
  /// Removes a file, or an empty directory.
  virtual int Remove(const std::string& path) = 0;
  /// Bytes that the file system of `path` has left.
  virtual int FreeBytes(const std::string& path, uint64_t* bytes) = 0;
};

/// The machine's.
Disk& SystemDisk();

/// A descriptor that is closed at the end of its life; may hold an error instead.
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

/// The directory that a path names something in: "." for a bare name.
std::string ParentDirectory(const std::string& path);

/// Makes the names in a directory durable.
[[nodiscard]] int SyncDirectory(Disk& disk, const std::string& path);

/// Makes a directory and those above it that are missing. Each is durable in the one above it when
/// this returns 0, also when another process made it and died before it synced. EEXIST when there
/// is a file under one of the names.
[[nodiscard]] int MakeDurableDirectory(Disk& disk, const std::string& path);

/// Writes `text` under `path` so that a power failure leaves what was there before or all of it. It
/// is durable when this returns 0.
[[nodiscard]] int WriteDurableFile(Disk& disk, const std::string& path, std::string_view text);

/// Reads a file of at most `most` bytes; EFBIG when it is longer.
[[nodiscard]] int ReadSmallFile(Disk& disk, const std::string& path, size_t most,
                                std::string* text);

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_PAYLOAD_DISK_H_
