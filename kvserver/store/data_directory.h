// SPDX-License-Identifier: Apache-2.0
//
// DataDirectory: the server's directory, opened and held for one process.
//
//   <path>/FORMAT      "quire-data-format <n>\n": who wrote it; a newer version is refused
//   <path>/LOCK        locked while a server has the directory open
//   <path>/metadata/   RocksDB
//   <path>/payload/    volumes (payload/volume_set.h)
//
// Ownership: the lock is held until destruction (and gone when the process dies).
// Errors: INVALID_ARGUMENT (no path, not a directory), PERMISSION_DENIED (not writable),
// FAILED_PRECONDITION (in use, or of a newer version), RESOURCE_EXHAUSTED (no space), DATA_LOSS
// (FORMAT is damaged). Each names the path and the remedy.
#ifndef QUIRE_KVSERVER_STORE_DATA_DIRECTORY_H_
#define QUIRE_KVSERVER_STORE_DATA_DIRECTORY_H_

#include <memory>
#include <string>

#include "common/base/status.h"

namespace quire::kvserver {

class DataDirectory {
 public:
  /// The version that this code writes, and the oldest that it reads.
  static constexpr int kFormatVersion = 2;
  static constexpr int kOldestFormatVersion = 2;

  /// Creates the directory when it is missing.
  static StatusOr<std::unique_ptr<DataDirectory>> Open(const std::string& path);
  ~DataDirectory();
  DataDirectory(const DataDirectory&) = delete;
  DataDirectory& operator=(const DataDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string metadata_path() const { return path_ + "/metadata"; }
  std::string payload_path() const { return path_ + "/payload"; }

 private:
  DataDirectory(std::string path, int lock_fd) : path_(std::move(path)), lock_fd_(lock_fd) {}
  Status CheckFormat() const;

  const std::string path_;
  const int lock_fd_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_DATA_DIRECTORY_H_
