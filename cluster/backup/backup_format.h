// SPDX-License-Identifier: Apache-2.0
//
// BackupFormat: the file of a backup of the registry (docs/formats/registry_backup.md): a header,
// records of etcd, and at the end their number and a checksum. BackupEncoder makes its bytes, and
// BackupReader reads and checks them. Thread-safety: none.
#ifndef QUIRE_CLUSTER_BACKUP_BACKUP_FORMAT_H_
#define QUIRE_CLUSTER_BACKUP_BACKUP_FORMAT_H_

#include <cstddef>
#include <cstdint>
#include <istream>
#include <optional>
#include <string>
#include <string_view>

#include "quire/status.h"
#include "quire/v1/cluster.pb.h"

namespace quire::cluster {

/// A key of etcd with its value.
struct BackupRecord {
  std::string key;
  std::string value;
  friend bool operator==(const BackupRecord&, const BackupRecord&) = default;
};

/// Most bytes of a key and of a value. etcd refuses requests above 1.5 MiB.
inline constexpr size_t kMaxBackupKeyBytes = size_t{64} << 10;
inline constexpr size_t kMaxBackupValueBytes = size_t{2} << 20;

/// Each call returns the next bytes of the file: Header once, Record for each record, End once.
class BackupEncoder {
 public:
  std::string Header(const v1::RegistryBackupHeader& header);
  /// REQUIRES: key and value are within the limits, and the key is not empty.
  std::string Record(std::string_view key, std::string_view value);
  std::string End();

  uint64_t count() const { return count_; }

 private:
  std::string Counted(std::string bytes);

  uint64_t count_ = 0;
  uint32_t crc32c_ = 0;  ///< Checksum of all bytes so far.
};

class BackupReader {
 public:
  /// `in` is the whole file, opened as binary, and outlives the reader.
  explicit BackupReader(std::istream* in) : in_(*in) {}

  /// Reads the header; called once, first. INVALID_ARGUMENT for a file of something else.
  /// FAILED_PRECONDITION for a newer format. DATA_LOSS for a damaged or cut file.
  StatusOr<v1::RegistryBackupHeader> ReadHeader();
  /// Reads the next record; nullopt at the end, when number and checksum are right. DATA_LOSS for a
  /// damaged or cut file; throw away what was read before.
  StatusOr<std::optional<BackupRecord>> Next();

  uint64_t count() const { return count_; }

 private:
  Status Take(size_t bytes, std::string* taken);
  StatusOr<uint32_t> TakeNumber();
  Status CheckEnd();

  std::istream& in_;
  uint64_t count_ = 0;
  uint32_t crc32c_ = 0;  ///< Checksum of all bytes so far.
};

}  // namespace quire::cluster

#endif  // QUIRE_CLUSTER_BACKUP_BACKUP_FORMAT_H_
