// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/payload/disk.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "kvserver/store/payload/engine/plain_engine.h"

namespace quire::kvserver {
namespace {

constexpr mode_t kFileMode = 0644;
constexpr mode_t kDirectoryMode = 0755;

/// Converts the result of a system call, 0 or -1, to 0 or the errno value.
int Result(int returned) { return returned == 0 ? 0 : errno; }

DiskEntry EntryOf(const struct stat& info) {
  return {.is_directory = S_ISDIR(info.st_mode),
          .size_bytes = static_cast<uint64_t>(info.st_size),
          .file = info.st_ino};
}

class PosixDisk final : public Disk {
 public:
  int Open(const std::string& path, int flags) override {
    const int fd = open(path.c_str(), flags | O_CLOEXEC, kFileMode);
    return fd >= 0 ? fd : -errno;
  }
  void Close(int fd) override { close(fd); }

  int Examine(const std::string& path, DiskEntry* entry) override {
    struct stat info;
    if (stat(path.c_str(), &info) != 0) return errno;
    *entry = EntryOf(info);
    return 0;
  }
  int Examine(int fd, DiskEntry* entry) override {
    struct stat info;
    if (fstat(fd, &info) != 0) return errno;
    *entry = EntryOf(info);
    return 0;
  }

  int64_t Read(int fd, uint64_t offset, std::span<std::byte> into) override {
    IoRequest request = IoRequest::Read(fd, offset, into);
    if (!into.empty()) PlainEngine::Finish(request);
    return request.error != 0 ? -request.error : static_cast<int64_t>(request.done);
  }
  int Write(int fd, uint64_t offset, std::span<const std::byte> bytes) override {
    IoRequest request = IoRequest::Write(fd, offset, bytes);
    if (!bytes.empty()) PlainEngine::Finish(request);
    return request.error;
  }
  int Allocate(int fd, uint64_t bytes) override {
    const auto length = static_cast<off_t>(bytes);
    if (fallocate(fd, 0, 0, length) == 0) return 0;
    // A file system without preallocation only sets the length.
    return errno == EOPNOTSUPP ? Result(ftruncate(fd, length)) : errno;
  }
  int Truncate(int fd, uint64_t bytes) override {
    return Result(ftruncate(fd, static_cast<off_t>(bytes)));
  }
  int Sync(int fd) override {
    while (fsync(fd) != 0) {
      if (errno != EINTR) return errno;
    }
    return 0;
  }
  int Lock(int fd) override { return Result(flock(fd, LOCK_EX | LOCK_NB)); }
  int SetDirect(int fd, bool direct) override {
    const int flags = fcntl(fd, F_GETFL);
    if (flags < 0) return errno;
    return Result(fcntl(fd, F_SETFL, direct ? flags | O_DIRECT : flags & ~O_DIRECT));
  }

  int MakeDirectory(const std::string& path) override {
    return Result(mkdir(path.c_str(), kDirectoryMode));
  }
  int List(const std::string& path, std::vector<std::string>* names) override {
    names->clear();
    std::error_code error;
    std::filesystem::directory_iterator entries(path, error);
    for (; !error && entries != std::filesystem::directory_iterator(); entries.increment(error)) {
      names->push_back(entries->path().filename().string());
    }
    return error.value();
  }
  int Rename(const std::string& from, const std::string& to) override {
    return Result(rename(from.c_str(), to.c_str()));
  }
  int Remove(const std::string& path) override { return Result(remove(path.c_str())); }
  int FreeBytes(const std::string& path, uint64_t* bytes) override {
    struct statvfs info;
    if (statvfs(path.c_str(), &info) != 0) return errno;
    *bytes = uint64_t{info.f_frsize} * info.f_bavail;
    return 0;
  }
};

}  // namespace

Disk& SystemDisk() {
  static PosixDisk disk;
  return disk;
}

std::string ParentDirectory(const std::string& path) {
  const std::filesystem::path whole(path);
  // "a/b/" names the same as "a/b".
  const auto parent = (whole.has_filename() ? whole : whole.parent_path()).parent_path();
  return parent.empty() ? "." : parent.string();
}

int SyncDirectory(Disk& disk, const std::string& path) {
  const DiskFile directory(disk, path, O_RDONLY | O_DIRECTORY);
  return directory.ok() ? disk.Sync(directory.fd()) : directory.error();
}

int MakeDurableDirectory(Disk& disk, const std::string& path) {
  const std::string parent = ParentDirectory(path);
  DiskEntry entry;
  const int found = disk.Examine(path, &entry);
  if (found == 0 && !entry.is_directory) return EEXIST;
  if (found != 0 && found != ENOENT) return found;
  if (found == ENOENT) {
    if (parent != path) {
      if (const int error = MakeDurableDirectory(disk, parent); error != 0) return error;
    }
    if (const int error = disk.MakeDirectory(path); error != 0 && error != EEXIST) return error;
  }
  const int error = SyncDirectory(disk, parent);
  // A directory above may be readable by its owner only. An existing one stays usable; its maker
  // had the right to sync it.
  const bool unreadable = error == EACCES || error == EPERM || error == EINVAL;
  return found == 0 && unreadable ? 0 : error;
}

int WriteDurableFile(Disk& disk, const std::string& path, std::string_view text) {
  const std::string temporary = path + ".tmp";
  {
    const DiskFile file(disk, temporary, O_WRONLY | O_CREAT | O_TRUNC);
    if (!file.ok()) return file.error();
    int error = disk.Write(file.fd(), 0, std::as_bytes(std::span(text)));
    if (error == 0) error = disk.Sync(file.fd());
    if (error != 0) return error;
  }
  if (const int error = disk.Rename(temporary, path); error != 0) return error;
  return SyncDirectory(disk, ParentDirectory(path));
}

int ReadSmallFile(Disk& disk, const std::string& path, size_t most, std::string* text) {
  const DiskFile file(disk, path, O_RDONLY);
  if (!file.ok()) return file.error();
  text->resize(most + 1);
  const int64_t size = disk.Read(file.fd(), 0, std::as_writable_bytes(std::span(*text)));
  if (size < 0) return static_cast<int>(-size);
  text->resize(static_cast<size_t>(size));
  return text->size() > most ? EFBIG : 0;
}

}  // namespace quire::kvserver
