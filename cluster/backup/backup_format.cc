// SPDX-License-Identifier: Apache-2.0
#include "cluster/backup/backup_format.h"

#include <span>

#include "cluster/membership/cluster_records.h"
#include "common/base/memory/checksum.h"

namespace quire::cluster {
namespace {

constexpr std::string_view kMagic = "QUIREREG";
constexpr uint32_t kBackupFormat = 1;
constexpr uint32_t kMaxHeaderBytes = 4096;

template <typename Number>
std::string BytesOf(Number number) {
  std::string bytes;
  for (size_t i = 0; i < sizeof number; ++i) {
    bytes.push_back(static_cast<char>(static_cast<uint8_t>(number >> (8 * i))));
  }
  return bytes;
}

template <typename Number>
Number NumberOf(std::string_view bytes) {
  Number number = 0;
  for (size_t i = 0; i < sizeof number; ++i) {
    number |= static_cast<Number>(static_cast<uint8_t>(bytes[i])) << (8 * i);
  }
  return number;
}

uint32_t ChecksumOf(std::string_view bytes, uint32_t seed) {
  return Crc32c(std::as_bytes(std::span(bytes)), seed);
}

Status Damaged(std::string_view why) {
  return DataLoss("the backup is damaged: ", why, "; use another copy of it");
}

}  // namespace

std::string BackupEncoder::Counted(std::string bytes) {
  crc32c_ = ChecksumOf(bytes, crc32c_);
  return bytes;
}

std::string BackupEncoder::Header(const v1::RegistryBackupHeader& header) {
  const std::string text = ToJsonText(header);
  return Counted(std::string(kMagic) + BytesOf(kBackupFormat) +
                 BytesOf(static_cast<uint32_t>(text.size())) + text);
}

std::string BackupEncoder::Record(std::string_view key, std::string_view value) {
  ++count_;
  std::string bytes =
      BytesOf(static_cast<uint32_t>(key.size())) + BytesOf(static_cast<uint32_t>(value.size()));
  return Counted(bytes.append(key).append(value));
}

std::string BackupEncoder::End() {
  const std::string end = Counted(BytesOf(uint32_t{0}) + BytesOf(count_));
  return end + BytesOf(crc32c_);
}

Status BackupReader::Take(size_t bytes, std::string* taken) {
  taken->resize(bytes);
  in_.read(taken->data(), static_cast<std::streamsize>(bytes));
  if (in_.gcount() != static_cast<std::streamsize>(bytes)) return Damaged("it ends early");
  crc32c_ = ChecksumOf(*taken, crc32c_);
  return OkStatus();
}

StatusOr<uint32_t> BackupReader::TakeNumber() {
  std::string bytes;
  QUIRE_RETURN_IF_ERROR(Take(sizeof(uint32_t), &bytes));
  return NumberOf<uint32_t>(bytes);
}

StatusOr<v1::RegistryBackupHeader> BackupReader::ReadHeader() {
  std::string text;
  if (!Take(kMagic.size(), &text).ok() || text != kMagic) {
    return InvalidArgument("the file is no backup of a registry");
  }
  QUIRE_ASSIGN_OR_RETURN(const uint32_t format, TakeNumber());
  if (format > kBackupFormat) {
    return FailedPrecondition("the backup has format ", format, ", and this program reads ",
                              kBackupFormat, ": restore it with a newer program");
  }
  QUIRE_ASSIGN_OR_RETURN(const uint32_t bytes, TakeNumber());
  if (format == 0 || bytes > kMaxHeaderBytes) return Damaged("its header cannot be read");
  QUIRE_RETURN_IF_ERROR(Take(bytes, &text));
  v1::RegistryBackupHeader header;
  const Status parsed = FromJsonText("header", text, &header);
  if (!parsed.ok() || header.cluster_name().empty() || header.cluster_id().empty()) {
    return Damaged("its header cannot be read");
  }
  return header;
}

StatusOr<std::optional<BackupRecord>> BackupReader::Next() {
  QUIRE_ASSIGN_OR_RETURN(const uint32_t key_bytes, TakeNumber());
  if (key_bytes == 0) {
    QUIRE_RETURN_IF_ERROR(CheckEnd());
    return std::optional<BackupRecord>();
  }
  QUIRE_ASSIGN_OR_RETURN(const uint32_t value_bytes, TakeNumber());
  if (key_bytes > kMaxBackupKeyBytes || value_bytes > kMaxBackupValueBytes) {
    return Damaged("a record is too long");
  }
  BackupRecord record;
  QUIRE_RETURN_IF_ERROR(Take(key_bytes, &record.key));
  QUIRE_RETURN_IF_ERROR(Take(value_bytes, &record.value));
  ++count_;
  return std::optional(std::move(record));
}

Status BackupReader::CheckEnd() {
  std::string bytes;
  QUIRE_RETURN_IF_ERROR(Take(sizeof(uint64_t), &bytes));
  const auto count = NumberOf<uint64_t>(bytes);
  const uint32_t crc32c = crc32c_;
  QUIRE_ASSIGN_OR_RETURN(const uint32_t written, TakeNumber());
  if (written != crc32c) return Damaged("its checksum is wrong");
  if (count != count_) return Damaged("it lacks records");
  if (in_.peek() != std::istream::traits_type::eof()) return Damaged("bytes follow its end");
  return OkStatus();
}

}  // namespace quire::cluster
