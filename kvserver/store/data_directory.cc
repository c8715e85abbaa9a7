// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/data_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <string_view>

namespace quire::kvserver {
namespace {

constexpr std::string_view kFormatPrefix = "quire-data-format ";

/// The status of a failed system call on `path`.
Status FromErrno(int error, std::string_view what, const std::string& path) {
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

Status EnsureDirectory(const std::string& path) {
  if (path.empty()) {
    return InvalidArgument("no data directory given; set ssd_path to a directory on SSD");
  }
  std::error_code error;
  std::filesystem::create_directories(path, error);
  struct stat info;
  if (stat(path.c_str(), &info) == 0 && !S_ISDIR(info.st_mode)) {
    return InvalidArgument("data directory ", path,
                           " is not a directory; remove the file or choose another path");
  }
  if (error) return FromErrno(error.value(), "create data directory", path);
  return OkStatus();
}

StatusOr<std::string> ReadSmallFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno == ENOENT ? NotFound(path) : FromErrno(errno, "read", path);
  char buffer[64];
  const ssize_t size = read(fd, buffer, sizeof buffer);
  const int error = errno;
  close(fd);
  if (size < 0) return FromErrno(error, "read", path);
  return std::string(buffer, static_cast<size_t>(size));
}

/// Writes `text` so that a crash leaves either nothing or all of it under `path`.
Status WriteSmallFile(const std::string& path, std::string_view text) {
  const std::string temporary = path + ".tmp";
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return FromErrno(errno, "write", temporary);
  const ssize_t written = write(fd, text.data(), text.size());
  const bool ok = written == static_cast<ssize_t>(text.size()) && fsync(fd) == 0;
  const int error = written >= 0 && static_cast<size_t>(written) < text.size() ? ENOSPC : errno;
  close(fd);
  if (!ok) return FromErrno(error, "write", temporary);
  if (rename(temporary.c_str(), path.c_str()) != 0) return FromErrno(errno, "write", path);
  return OkStatus();
}

/// The number in a FORMAT file's text; 0 when it is not one.
int ParseFormat(std::string_view text) {
  if (!text.starts_with(kFormatPrefix) || !text.ends_with("\n")) return 0;
  text.remove_prefix(kFormatPrefix.size());
  text.remove_suffix(1);
  int version = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), version);
  return error == std::errc() && end == text.data() + text.size() && version > 0 ? version : 0;
}

}  // namespace

StatusOr<std::unique_ptr<DataDirectory>> DataDirectory::Open(const std::string& path) {
  QUIRE_RETURN_IF_ERROR(EnsureDirectory(path));
  const std::string lock_path = path + "/LOCK";
  const int fd = open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return FromErrno(errno, "write in data directory", path);
  std::unique_ptr<DataDirectory> directory(new DataDirectory(path, fd));
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    return FailedPrecondition("data directory ", path,
                              " is in use by another server; stop that one or choose another path");
  }
  QUIRE_RETURN_IF_ERROR(directory->CheckFormat());
  return directory;
}

DataDirectory::~DataDirectory() { close(lock_fd_); }

Status DataDirectory::CheckFormat() const {
  const std::string file = path_ + "/FORMAT";
  const StatusOr<std::string> text = ReadSmallFile(file);
  if (text.status().code() == StatusCode::kNotFound) {
    if (std::filesystem::exists(metadata_path())) {
      return DataLoss(file, " is missing although ", metadata_path(),
                      " exists; restore it from a backup or choose an empty directory");
    }
    return WriteSmallFile(file, std::string(kFormatPrefix) + std::to_string(kFormatVersion) + "\n");
  }
  QUIRE_RETURN_IF_ERROR(text.status());
  const int version = ParseFormat(*text);
  if (version == 0) {
    return DataLoss(file, " is damaged; restore it from a backup or choose an empty directory");
  }
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
  return OkStatus();
}

}  // namespace quire::kvserver
