// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/testing/disk_file_system.h"

#include <fcntl.h>
#include <rocksdb/file_system.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "kvserver/store/metadata/clocked_env.h"

namespace quire::kvserver {
namespace {

using rocksdb::FileOptions;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

IOStatus FromErrno(int error, const std::string& what) {
  switch (error) {
    case 0:
      return IOStatus::OK();
    case ENOENT:
      return IOStatus::PathNotFound(what, std::strerror(error));
    case ENOSPC:
      return IOStatus::NoSpace(what, std::strerror(error));
    default:
      return IOStatus::IOError(what, std::strerror(error));
  }
}

/// Reads into `scratch`, as RocksDB's reads do.
IOStatus ReadAt(Disk& disk, int fd, uint64_t offset, size_t size, Slice* result, char* scratch) {
  const int64_t read = disk.Read(fd, offset, std::as_writable_bytes(std::span(scratch, size)));
  *result = Slice(scratch, read < 0 ? 0 : static_cast<size_t>(read));
  return FromErrno(read < 0 ? static_cast<int>(-read) : 0, "read");
}

class SequentialFile final : public rocksdb::FSSequentialFile {
 public:
  SequentialFile(Disk* disk, DiskFile file) : disk_(*disk), file_(std::move(file)) {}
  IOStatus Read(size_t size, const IOOptions&, Slice* result, char* scratch,
                IODebugContext*) override {
    IOStatus status = ReadAt(disk_, file_.fd(), position_, size, result, scratch);
    position_ += result->size();
    return status;
  }
  IOStatus Skip(uint64_t bytes) override {
    position_ += bytes;
    return IOStatus::OK();
  }

 private:
  Disk& disk_;
  const DiskFile file_;
  uint64_t position_ = 0;
};

class RandomAccessFile final : public rocksdb::FSRandomAccessFile {
 public:
  RandomAccessFile(Disk* disk, DiskFile file) : disk_(*disk), file_(std::move(file)) {}
  IOStatus Read(uint64_t offset, size_t size, const IOOptions&, Slice* result, char* scratch,
                IODebugContext*) const override {
    return ReadAt(disk_, file_.fd(), offset, size, result, scratch);
  }

 private:
  Disk& disk_;
  const DiskFile file_;
};

class WritableFile final : public rocksdb::FSWritableFile {
 public:
  WritableFile(Disk* disk, DiskFile file, uint64_t size)
      : disk_(*disk), file_(std::move(file)), size_(size) {}

  using FSWritableFile::Append;
  IOStatus Append(const Slice& data, const IOOptions&, IODebugContext*) override {
    const auto bytes = std::as_bytes(std::span(data.data(), data.size()));
    const int error = disk_.Write(file_.fd(), size_, bytes);
    if (error == 0) size_ += data.size();
    return FromErrno(error, "write");
  }
  IOStatus Truncate(uint64_t size, const IOOptions&, IODebugContext*) override {
    const int error = disk_.Truncate(file_.fd(), size);
    if (error == 0) size_ = size;
    return FromErrno(error, "truncate");
  }
  IOStatus Close(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }
  IOStatus Flush(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }
  IOStatus Sync(const IOOptions&, IODebugContext*) override {
    return FromErrno(disk_.Sync(file_.fd()), "sync");
  }
  bool IsSyncThreadSafe() const override { return true; }
  uint64_t GetFileSize(const IOOptions&, IODebugContext*) override { return size_; }

 private:
  Disk& disk_;
  const DiskFile file_;
  uint64_t size_;
};

class Directory final : public rocksdb::FSDirectory {
 public:
  Directory(Disk* disk, DiskFile file) : disk_(*disk), file_(std::move(file)) {}
  IOStatus Fsync(const IOOptions&, IODebugContext*) override {
    return FromErrno(disk_.Sync(file_.fd()), "sync");
  }

 private:
  Disk& disk_;
  const DiskFile file_;
};

class LockedFile final : public rocksdb::FileLock {
 public:
  explicit LockedFile(DiskFile file) : file_(std::move(file)) {}
  int fd() const { return file_.fd(); }

 private:
  const DiskFile file_;
};

class SilentLogger final : public rocksdb::Logger {
 public:
  using Logger::Logv;
  void Logv(const char*, va_list) override {}
  /// Called where the size of the log is bounded.
  size_t GetLogFileSize() const override { return 0; }
};

class DiskFileSystem final : public rocksdb::FileSystem {
 public:
  explicit DiskFileSystem(Disk* disk) : disk_(*disk) {}
  const char* Name() const override { return "DiskFileSystem"; }

  IOStatus NewSequentialFile(const std::string& name, const FileOptions&,
                             std::unique_ptr<rocksdb::FSSequentialFile>* file,
                             IODebugContext*) override {
    return OpenAs<SequentialFile>(name, O_RDONLY, file);
  }
  IOStatus NewRandomAccessFile(const std::string& name, const FileOptions&,
                               std::unique_ptr<rocksdb::FSRandomAccessFile>* file,
                               IODebugContext*) override {
    return OpenAs<RandomAccessFile>(name, O_RDONLY, file);
  }
  IOStatus NewWritableFile(const std::string& name, const FileOptions&,
                           std::unique_ptr<rocksdb::FSWritableFile>* file,
                           IODebugContext*) override {
    return OpenAs<WritableFile>(name, O_WRONLY | O_CREAT | O_TRUNC, file, uint64_t{0});
  }
  IOStatus ReopenWritableFile(const std::string& name, const FileOptions&,
                              std::unique_ptr<rocksdb::FSWritableFile>* file,
                              IODebugContext*) override {
    DiskEntry entry;
    const int error = disk_.Examine(name, &entry);
    if (error != 0 && error != ENOENT) return FromErrno(error, name);
    return OpenAs<WritableFile>(name, O_WRONLY | O_CREAT, file, entry.size_bytes);
  }
  IOStatus NewDirectory(const std::string& name, const IOOptions&,
                        std::unique_ptr<rocksdb::FSDirectory>* directory,
                        IODebugContext*) override {
    return OpenAs<Directory>(name, O_RDONLY | O_DIRECTORY, directory);
  }

  IOStatus FileExists(const std::string& name, const IOOptions&, IODebugContext*) override {
    DiskEntry entry;
    const int error = disk_.Examine(name, &entry);
    return error == ENOENT ? IOStatus::NotFound(name) : FromErrno(error, name);
  }
  IOStatus GetChildren(const std::string& name, const IOOptions&, std::vector<std::string>* names,
                       IODebugContext*) override {
    const int error = disk_.List(name, names);
    return error == ENOENT ? IOStatus::NotFound(name) : FromErrno(error, name);
  }
  IOStatus DeleteFile(const std::string& name, const IOOptions&, IODebugContext*) override {
    return FromErrno(disk_.Remove(name), name);
  }
  IOStatus CreateDir(const std::string& name, const IOOptions&, IODebugContext*) override {
    return FromErrno(disk_.MakeDirectory(name), name);
  }
  IOStatus CreateDirIfMissing(const std::string& name, const IOOptions&, IODebugContext*) override {
    const int error = disk_.MakeDirectory(name);
    return FromErrno(error == EEXIST ? 0 : error, name);
  }
  IOStatus DeleteDir(const std::string& name, const IOOptions&, IODebugContext*) override {
    return FromErrno(disk_.Remove(name), name);
  }
  IOStatus GetFileSize(const std::string& name, const IOOptions&, uint64_t* size,
                       IODebugContext*) override {
    DiskEntry entry;
    const int error = disk_.Examine(name, &entry);
    *size = entry.size_bytes;
    return FromErrno(error, name);
  }
  IOStatus GetFileModificationTime(const std::string&, const IOOptions&, uint64_t* time,
                                   IODebugContext*) override {
    *time = 0;
    return IOStatus::OK();
  }
  IOStatus RenameFile(const std::string& from, const std::string& to, const IOOptions&,
                      IODebugContext*) override {
    return FromErrno(disk_.Rename(from, to), from);
  }

  IOStatus LockFile(const std::string& name, const IOOptions&, rocksdb::FileLock** lock,
                    IODebugContext*) override {
    DiskFile file(disk_, name, O_RDWR | O_CREAT);
    if (!file.ok()) return FromErrno(file.error(), name);
    if (const int error = disk_.Lock(file.fd()); error != 0) return FromErrno(error, name);
    *lock = new LockedFile(std::move(file));
    return IOStatus::OK();
  }
  IOStatus UnlockFile(rocksdb::FileLock* lock, const IOOptions&, IODebugContext*) override {
    delete lock;
    return IOStatus::OK();
  }
  IOStatus GetTestDirectory(const IOOptions&, std::string* path, IODebugContext*) override {
    *path = "/test";
    return IOStatus::OK();
  }
  IOStatus NewLogger(const std::string&, const IOOptions&, std::shared_ptr<rocksdb::Logger>* logger,
                     IODebugContext*) override {
    *logger = std::make_shared<SilentLogger>();
    return IOStatus::OK();
  }
  IOStatus GetAbsolutePath(const std::string& name, const IOOptions&, std::string* absolute,
                           IODebugContext*) override {
    *absolute = name;
    return IOStatus::OK();
  }
  IOStatus GetFreeSpace(const std::string& name, const IOOptions&, uint64_t* bytes,
                        IODebugContext*) override {
    return FromErrno(disk_.FreeBytes(name, bytes), name);
  }
  IOStatus IsDirectory(const std::string& name, const IOOptions&, bool* is_directory,
                       IODebugContext*) override {
    DiskEntry entry;
    const int error = disk_.Examine(name, &entry);
    *is_directory = entry.is_directory;
    return FromErrno(error, name);
  }

 private:
  template <typename File, typename Base, typename... More>
  IOStatus OpenAs(const std::string& name, int flags, std::unique_ptr<Base>* out, More... more) {
    DiskFile file(disk_, name, flags);
    if (!file.ok()) return FromErrno(file.error(), name);
    *out = std::make_unique<File>(&disk_, std::move(file), more...);
    return IOStatus::OK();
  }

  Disk& disk_;
};

/// The machine's time, without the second that RocksDB waits before a retry.
class ImpatientClock final : public rocksdb::SystemClockWrapper {
 public:
  ImpatientClock() : SystemClockWrapper(rocksdb::SystemClock::Default()) {}
  const char* Name() const override { return "ImpatientClock"; }
  void SleepForMicroseconds(int micros) override {
    SystemClockWrapper::SleepForMicroseconds(std::min(micros, kLongestSleepMicros));
  }

 private:
  static constexpr int kLongestSleepMicros = 1000;
};

}  // namespace

std::unique_ptr<rocksdb::Env> MakeDiskEnv(Disk* disk) {
  return std::make_unique<ClockedEnv>(
      rocksdb::NewCompositeEnv(std::make_shared<DiskFileSystem>(disk)),
      std::make_shared<ImpatientClock>());
}

}  // namespace quire::kvserver
