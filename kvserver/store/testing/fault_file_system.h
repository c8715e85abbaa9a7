// SPDX-License-Identifier: Apache-2.0
//
// FaultFileSystem: the machine's file system with failures on request: no space, I/O errors,
// read-only. For tests and torture runs of the database. Thread-safety: all methods are safe;
// RocksDB calls from its own threads.
#ifndef QUIRE_KVSERVER_STORE_TESTING_FAULT_FILE_SYSTEM_H_
#define QUIRE_KVSERVER_STORE_TESTING_FAULT_FILE_SYSTEM_H_

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace quire::kvserver {

enum class Fault {
  kNone,
  kNoSpace,
  kTornNoSpace,
  kNoSpaceForFiles,   ///< No space for new files, and enough for existing ones.
  kNoSpaceAtSync,     ///< Writes succeed, but syncs find no space.
  kErrorAtSync,       ///< Writes succeed, but syncs end with an I/O error.
  kErrorOnceWritten,  ///< Each write ends with an I/O error after all of its bytes were written.
  kIoError,
  kReadOnly,
  kReadError,  ///< Reads of tables end with an I/O error; writes continue.
};

/// Shared by the file system and the files it opened.
struct FaultSwitch {
  std::atomic<Fault> fault{Fault::kNone};
  /// Failures left before the fault ends by itself.
  std::atomic<uint64_t> failures_left{UINT64_MAX};
  std::atomic<uint64_t> free_bytes{uint64_t{1}
                                   << 40};  ///< Free bytes besides the database's files.
  /// True: the database's files use up `free_bytes`.
  std::atomic<bool> counts_files{false};

  enum class Operation { kCreate, kAppend, kSync, kRead };
  /// Runs before each operation, in its thread; may be empty. Must not change while there are
  /// files.
  std::function<void(Operation)> before = {};

  /// The fault that `operation` meets.
  Fault Meet(Operation operation) {
    if (before) before(operation);
    const Fault met = fault;
    if ((met == Fault::kReadError) != (operation == Operation::kRead)) return Fault::kNone;
    const bool only_at_sync = met == Fault::kNoSpaceAtSync || met == Fault::kErrorAtSync;
    if (met == Fault::kNone || (only_at_sync && operation != Operation::kSync)) return Fault::kNone;
    if (met == Fault::kNoSpaceForFiles && operation != Operation::kCreate) return Fault::kNone;
    if (failures_left.fetch_sub(1) == 1) fault = Fault::kNone;
    return met;
  }
};

inline rocksdb::IOStatus StatusOf(Fault fault) {
  switch (fault) {
    case Fault::kNone:
      return rocksdb::IOStatus::OK();
    case Fault::kNoSpace:
    case Fault::kTornNoSpace:
    case Fault::kNoSpaceForFiles:
    case Fault::kNoSpaceAtSync:
      return rocksdb::IOStatus::NoSpace("No space left on device");
    case Fault::kErrorAtSync:
    case Fault::kErrorOnceWritten:
    case Fault::kIoError:
    case Fault::kReadError:
      return rocksdb::IOStatus::IOError("Input/output error");
    case Fault::kReadOnly:
      return rocksdb::IOStatus::IOError("Read-only file system");
  }
  return rocksdb::IOStatus::OK();
}

class FaultWritableFile final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  FaultWritableFile(std::unique_ptr<rocksdb::FSWritableFile> file, FaultSwitch* faults)
      : FSWritableFileOwnerWrapper(std::move(file)), faults_(faults) {}

  using FSWritableFileOwnerWrapper::Append;
  rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                           rocksdb::IODebugContext* debug) override {
    const Fault fault = faults_->Meet(FaultSwitch::Operation::kAppend);
    if (fault == Fault::kNone) return FSWritableFileOwnerWrapper::Append(data, options, debug);
    if (fault == Fault::kTornNoSpace) {  // the device takes half of it
      (void)FSWritableFileOwnerWrapper::Append({data.data(), data.size() / 2}, options, debug);
    }
    if (fault == Fault::kErrorOnceWritten) {
      (void)FSWritableFileOwnerWrapper::Append(data, options, debug);
    }
    return StatusOf(fault);
  }
  rocksdb::IOStatus Sync(const rocksdb::IOOptions& options,
                         rocksdb::IODebugContext* debug) override {
    const rocksdb::IOStatus status = StatusOf(faults_->Meet(FaultSwitch::Operation::kSync));
    return status.ok() ? FSWritableFileOwnerWrapper::Sync(options, debug) : status;
  }

 private:
  FaultSwitch* const faults_;
};

class FaultReadFile final : public rocksdb::FSRandomAccessFileOwnerWrapper {
 public:
  FaultReadFile(std::unique_ptr<rocksdb::FSRandomAccessFile> file, FaultSwitch* faults)
      : FSRandomAccessFileOwnerWrapper(std::move(file)), faults_(faults) {}

  rocksdb::IOStatus Read(uint64_t offset, size_t bytes, const rocksdb::IOOptions& options,
                         rocksdb::Slice* result, char* scratch,
                         rocksdb::IODebugContext* debug) const override {
    const rocksdb::IOStatus status = StatusOf(faults_->Meet(FaultSwitch::Operation::kRead));
    if (!status.ok()) return status;
    return FSRandomAccessFileOwnerWrapper::Read(offset, bytes, options, result, scratch, debug);
  }

 private:
  FaultSwitch* const faults_;
};

class FaultFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  explicit FaultFileSystem(FaultSwitch* faults)
      : FileSystemWrapper(rocksdb::FileSystem::Default()), faults_(faults) {}
  const char* Name() const override { return "FaultFileSystem"; }

  rocksdb::IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* file,
                                    rocksdb::IODebugContext* debug) override {
    const Fault fault = faults_->Meet(FaultSwitch::Operation::kCreate);
    if (fault != Fault::kNone) return StatusOf(fault);
    std::unique_ptr<rocksdb::FSWritableFile> real;
    rocksdb::IOStatus status = FileSystemWrapper::NewWritableFile(name, options, &real, debug);
    if (status.ok()) *file = std::make_unique<FaultWritableFile>(std::move(real), faults_);
    return status;
  }
  rocksdb::IOStatus NewRandomAccessFile(const std::string& name,
                                        const rocksdb::FileOptions& options,
                                        std::unique_ptr<rocksdb::FSRandomAccessFile>* file,
                                        rocksdb::IODebugContext* debug) override {
    std::unique_ptr<rocksdb::FSRandomAccessFile> real;
    rocksdb::IOStatus status = FileSystemWrapper::NewRandomAccessFile(name, options, &real, debug);
    if (status.ok()) *file = std::make_unique<FaultReadFile>(std::move(real), faults_);
    return status;
  }
  rocksdb::IOStatus GetFreeSpace(const std::string& path, const rocksdb::IOOptions& options,
                                 uint64_t* bytes, rocksdb::IODebugContext* debug) override {
    *bytes = faults_->free_bytes;
    std::vector<std::string> names;
    if (faults_->counts_files) (void)GetChildren(path, options, &names, debug);
    for (const std::string& name : names) {
      uint64_t size = 0;
      // A deleted file has no bytes.
      (void)GetFileSize(path + "/" + name, options, &size, debug);
      *bytes -= std::min(*bytes, size);
    }
    return rocksdb::IOStatus::OK();
  }

 private:
  FaultSwitch* const faults_;
};

/// A switch and its environment.
struct FaultEnv {
  FaultSwitch faults;
  std::unique_ptr<rocksdb::Env> env =
      rocksdb::NewCompositeEnv(std::make_shared<FaultFileSystem>(&faults));
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_TESTING_FAULT_FILE_SYSTEM_H_
