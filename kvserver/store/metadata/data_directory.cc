// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/metadata/data_directory.h"

#include <fcntl.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>

#include "kvserver/store/metadata/format_proof.h"

namespace quire::kvserver {
namespace {

constexpr std::string_view kFormatPrefix = "quire-data-format ";
constexpr size_t kMostFormatBytes = 64;

/// The status of a failed system call on `path`.
Status DirectoryError(int error, std::string_view what, const std::string& path) {
  const char* reason = std::strerror(error);
  switch (error) {
    case EACCES:
    case EPERM:
    case EROFS:
      return PermissionDenied("cannot ", what, " ", path, ": ", reason,
                              "; give the server write access or choose another data directory");
    case ENOSPC:
    case EDQUOT:
      return ResourceExhausted("cannot ", what, " ", path, ": ", reason,
                               "; free space there or choose another data directory");
    default:
      return InvalidArgument("cannot ", what, " ", path, ": ", reason,
                             "; choose a data directory that can be used");
  }
}

Status EnsureDirectory(Disk& disk, const std::string& path) {
  if (path.empty()) {
    return InvalidArgument("no data directory given; set ssd_path to a directory on SSD");
  }
  const int error = MakeDurableDirectory(disk, path);
  if (error == EEXIST) {
    return InvalidArgument("data directory ", path,
                           " is not a directory; remove the file or choose another path");
  }
  return error != 0 ? DirectoryError(error, "create data directory", path) : OkStatus();
}

/// Parses the number in a FORMAT file's text; 0 when it is malformed.
int ParseFormat(std::string_view text) {
  if (!text.starts_with(kFormatPrefix) || !text.ends_with("\n")) return 0;
  text.remove_prefix(kFormatPrefix.size());
  text.remove_suffix(1);
  int version = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), version);
  return error == std::errc() && end == text.data() + text.size() && version > 0 ? version : 0;
}

}  // namespace

StatusOr<std::unique_ptr<DataDirectory>> DataDirectory::Open(const std::string& path, Disk& disk,
                                                             rocksdb::Env* env) {
  QUIRE_RETURN_IF_ERROR(EnsureDirectory(disk, path));
  const int fd = disk.Open(path + "/LOCK", O_RDWR | O_CREAT);
  if (fd < 0) return DirectoryError(-fd, "write in data directory", path);
  std::unique_ptr<DataDirectory> directory(new DataDirectory(&disk, path, fd));
  if (disk.Lock(fd) != 0) {
    return FailedPrecondition("data directory ", path,
                              " is in use by another server; stop that one or choose another path");
  }
  QUIRE_RETURN_IF_ERROR(directory->CheckFormat(env));
  QUIRE_RETURN_IF_ERROR(directory->MakeFolders());
  return directory;
}

DataDirectory::~DataDirectory() { disk_.Close(lock_fd_); }

Status DataDirectory::CheckFormat(rocksdb::Env* env) {
  const std::string file = path_ + "/FORMAT";
  std::string text;
  const int error = ReadSmallFile(disk_, file, kMostFormatBytes, &text);
  if (error != 0 && error != ENOENT && error != EFBIG) return DirectoryError(error, "read", file);
  const int version = error == 0 ? ParseFormat(text) : 0;
  if (version == 0) return RebuildFormat(error == ENOENT, env);
  if (version > kFormatVersion) {
    return FailedPrecondition("data directory ", path_, " has format version ", version,
                              ", this server reads versions up to ", kFormatVersion,
                              "; upgrade the server or choose another directory");
  }
  if (version < kOldestFormatVersion) {
    return FailedPrecondition("data directory ", path_, " has format version ", version,
                              ", this server reads versions from ", kOldestFormatVersion,
                              " on; choose another directory and put the documents again");
  }
  format_ = version;
  return OkStatus();
}

Status DataDirectory::Upgrade() const {
  return format_ == kFormatVersion ? OkStatus() : WriteFormat(kFormatVersion);
}

Status DataDirectory::RebuildFormat(bool is_missing, rocksdb::Env* env) {
  const std::string file = path_ + "/FORMAT";
  const StatusOr<int> proven = ProveFormat(disk_, metadata_path(), env);
  const bool is_new = is_missing && IsNotFound(proven.status());
  if (IsNotFound(proven.status()) && !is_missing) {
    return DataLoss(file, " is damaged, and there is no database that says what it was; ",
                    "restore it from a backup or choose an empty directory");
  }
  if (!proven.ok() && !is_new) {
    return Annotate(proven.status(), file, is_missing ? " is missing" : " is damaged");
  }
  format_ = is_new ? kFormatVersion : *proven;
  return WriteFormat(format_);
}

Status DataDirectory::WriteFormat(int version) const {
  const std::string file = path_ + "/FORMAT";
  const std::string text = std::string(kFormatPrefix) + std::to_string(version) + "\n";
  const int error = WriteDurableFile(disk_, file, text);
  return error != 0 ? DirectoryError(error, "write", file) : OkStatus();
}

// After FORMAT, so that they never exist without it. The sync also covers a FORMAT whose server
// died before it was durable.
Status DataDirectory::MakeFolders() const {
  for (const std::string& folder : {metadata_path(), payload_path()}) {
    const int error = disk_.MakeDirectory(folder);
    if (error != 0 && error != EEXIST) return DirectoryError(error, "create", folder);
  }
  const int error = SyncDirectory(disk_, path_);
  return error != 0 ? DirectoryError(error, "sync", path_) : OkStatus();
}

}  // namespace quire::kvserver
