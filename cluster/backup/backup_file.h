// SPDX-License-Identifier: Apache-2.0
//
// BackupFile: a file that appears as a whole or not at all. Bytes go to PATH.partial, which takes
// the file's place once it is synced. The destructor removes a partial file. Thread-safety: none.
// Errors: UNAVAILABLE naming the file.
#ifndef QUIRE_CLUSTER_BACKUP_BACKUP_FILE_H_
#define QUIRE_CLUSTER_BACKUP_BACKUP_FILE_H_

#include <string>
#include <string_view>
#include <utility>

#include "common/base/unique_fd.h"
#include "quire/status.h"

namespace quire::cluster {

class BackupFile {
 public:
  static StatusOr<BackupFile> Create(const std::string& path);
  BackupFile(BackupFile&& other) noexcept
      : path_(std::exchange(other.path_, {})), file_(std::move(other.file_)) {}
  BackupFile& operator=(BackupFile&&) = delete;
  ~BackupFile();

  Status Append(std::string_view bytes);
  /// Puts the file in its place. Nothing is appended after that.
  Status Finish();

 private:
  BackupFile(std::string path, UniqueFd file) : path_(std::move(path)), file_(std::move(file)) {}
  std::string partial() const { return path_ + ".partial"; }
  Status Failed() const;

  std::string path_;  ///< Empty once finished or moved.
  UniqueFd file_;
};

}  // namespace quire::cluster

#endif  // QUIRE_CLUSTER_BACKUP_BACKUP_FILE_H_
