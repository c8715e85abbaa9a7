// SPDX-License-Identifier: Apache-2.0
#include "cluster/backup/backup_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

namespace quire::cluster {

StatusOr<BackupFile> BackupFile::Create(const std::string& path) {
  const std::string partial = path + ".partial";
  // Salts of tenants are secret.
  UniqueFd file(open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!file.valid()) return Unavailable("cannot write ", partial, ": ", std::strerror(errno));
  return BackupFile(path, std::move(file));
}

BackupFile::~BackupFile() {
  if (!path_.empty()) unlink(partial().c_str());
}

Status BackupFile::Failed() const {
  return Unavailable("cannot write ", path_, ": ", std::strerror(errno));
}

Status BackupFile::Append(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(file_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Failed();
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return OkStatus();
}

Status BackupFile::Finish() {
  if (fsync(file_.get()) != 0) return Failed();
  if (std::rename(partial().c_str(), path_.c_str()) != 0) return Failed();
  const std::filesystem::path folder = std::filesystem::absolute(path_).parent_path();
  const UniqueFd directory(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.valid() || fsync(directory.get()) != 0) return Failed();
  path_.clear();
  return OkStatus();
}

}  // namespace quire::cluster
