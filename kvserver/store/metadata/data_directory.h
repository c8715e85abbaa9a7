// SPDX-License-Identifier: Apache-2.0
//
// DataDirectory: the server's directory, opened and locked by one process.
//
//   <path>/FORMAT      "quire-data-format <n>\n": the version; a newer one is refused
//   <path>/LOCK        locked while a server has the directory open
//   <path>/metadata/   RocksDB
//   <path>/payload/    volumes (payload/volume_set.h)
//
// All of these names are durable when Open returns. FORMAT becomes durable first, so no power
// failure separates them. A missing or damaged FORMAT is rewritten if the database proves its
// contents (format_proof.h).
//
// Ownership: the lock is held until destruction or the end of the process. Each error names the
// path and the remedy:
// - INVALID_ARGUMENT: no path, or not a directory.
// - PERMISSION_DENIED: not writable.
// - FAILED_PRECONDITION: in use, or of a newer version.
// - RESOURCE_EXHAUSTED: no space.
// - DATA_LOSS: FORMAT is damaged and the database does not prove it.
#ifndef QUIRE_KVSERVER_STORE_METADATA_DATA_DIRECTORY_H_
#define QUIRE_KVSERVER_STORE_METADATA_DATA_DIRECTORY_H_

#include <memory>
#include <string>

#include "kvserver/store/payload/disk.h"
#include "quire/status.h"

namespace rocksdb {
class Env;
}  // namespace rocksdb

namespace quire::kvserver {

class DataDirectory {
 public:
  /// The version that this code writes, and the oldest one that it reads.
  static constexpr int kFormatVersion = 3;
  static constexpr int kOldestFormatVersion = 2;

  /// Opens the directory and creates it when missing. The disk outlives the directory. `env` is
  /// RocksDB's view of the same disk; null: the machine's.
  static StatusOr<std::unique_ptr<DataDirectory>> Open(const std::string& path,
                                                       Disk& disk = SystemDisk(),
                                                       rocksdb::Env* env = nullptr);
  ~DataDirectory();
  DataDirectory(const DataDirectory&) = delete;
  DataDirectory& operator=(const DataDirectory&) = delete;

  /// Durably raises FORMAT to kFormatVersion. Call before a write that older servers do not read.
  [[nodiscard]] Status Upgrade() const;

  const std::string& path() const { return path_; }
  std::string metadata_path() const { return path_ + "/metadata"; }
  std::string payload_path() const { return path_ + "/payload"; }

 private:
  DataDirectory(Disk* disk, std::string path, int lock_fd)
      : disk_(*disk), path_(std::move(path)), lock_fd_(lock_fd) {}
  Status CheckFormat(rocksdb::Env* env);
  /// Rewrites a missing or damaged FORMAT, in a new directory or with a proof.
  Status RebuildFormat(bool is_missing, rocksdb::Env* env);
  Status WriteFormat(int version) const;
  Status MakeFolders() const;

  Disk& disk_;
  const std::string path_;
  const int lock_fd_;
  int format_ = 0;  ///< The version in FORMAT, which does not change but by Upgrade.
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_METADATA_DATA_DIRECTORY_H_
