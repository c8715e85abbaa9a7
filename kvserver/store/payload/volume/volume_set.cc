// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/payload/volume/volume_set.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "kvserver/store/payload/engine/io_status.h"
#include "kvserver/store/payload/volume/location.h"

namespace quire::kvserver {
namespace {

constexpr std::string_view kExtension = ".vol";
constexpr size_t kDigits = 8;
constexpr uint32_t kMaxVolumes = 100'000'000;  ///< Limit of kDigits.

std::string FileName(uint32_t number) {
  std::string digits = std::to_string(number);
  digits.insert(0, kDigits - std::min(kDigits, digits.size()), '0');
  return digits + std::string(kExtension);
}

/// Parses the number in a volume's file name; nullopt for any other name.
std::optional<uint32_t> NumberOf(const std::string& name) {
  uint32_t number = 0;
  const char* const digits_end = name.data() + std::min(kDigits, name.size());
  const auto [end, error] = std::from_chars(name.data(), digits_end, number);
  if (error != std::errc() || name != FileName(number)) return std::nullopt;
  return number;
}

bool IsHalfMade(const std::string& name) {
  const std::string suffix = VolumeFile::TemporaryPath("");
  return name.ends_with(suffix) && NumberOf(name.substr(0, name.size() - suffix.size()));
}

/// Names in a directory; empty when it does not exist.
StatusOr<std::vector<std::string>> NamesIn(Disk& disk, const std::string& directory) {
  std::vector<std::string> names;
  const int error = disk.List(directory, &names);
  if (error == ENOENT) return names;
  if (error != 0) return FromErrno(error, "read directory " + directory);
  return names;
}

Status CheckOptions(const VolumeSet::Options& options) {
  if (options.directory.empty()) return InvalidArgument("no directory given for the volumes");
  if (options.volume_bytes < VolumeSet::kMinVolumeBytes ||
      options.volume_bytes % kBlockBytes != 0 ||
      options.volume_bytes > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return InvalidArgument("volume size is ", options.volume_bytes, ", must be at least ",
                           VolumeSet::kMinVolumeBytes, " and a multiple of ", kBlockBytes);
  }
  if (options.limit_bytes != 0 && options.limit_bytes < VolumeSet::kMinVolumeBytes) {
    return InvalidArgument("SSD limit is ", options.limit_bytes, " bytes, must be at least ",
                           VolumeSet::kMinVolumeBytes, ", or 0 for none");
  }
  return OkStatus();
}

}  // namespace

StatusOr<std::unique_ptr<VolumeSet>> VolumeSet::Open(const Options& options) {
  QUIRE_RETURN_IF_ERROR(CheckOptions(options));
  std::unique_ptr<VolumeSet> set(new VolumeSet(options));
  if (options.read_only) {
    QUIRE_RETURN_IF_ERROR(set->OpenAll());
    return set;
  }
  if (const int error = MakeDurableDirectory(set->disk_, options.directory); error != 0) {
    return FromErrno(error, "make directory " + options.directory);
  }
  QUIRE_RETURN_IF_ERROR(set->RemoveHalfMade());
  // A server that died may have named a volume without making the name durable.
  if (const int error = SyncDirectory(set->disk_, options.directory); error != 0) {
    return FromErrno(error, "sync directory " + options.directory);
  }
  QUIRE_RETURN_IF_ERROR(set->OpenAll());
  QUIRE_RETURN_IF_ERROR(set->Probe());
  return set;
}

Status VolumeSet::Probe() {
  // Stored payload must stay readable on a full file system.
  if (const std::vector<VolumeFile*> volumes = All(); !volumes.empty()) {
    direct_ = volumes.back()->direct();
    return OkStatus();
  }
  const std::string path = options_.directory + "/probe";
  const VolumeHeader header{.volume = 0, .size_bytes = kMinVolumeBytes};
  QUIRE_ASSIGN_OR_RETURN(const auto volume,
                         VolumeFile::Create(path, header, options_.direct, nullptr, disk_));
  direct_ = volume->direct();
  const int error = disk_.Remove(path);
  return error != 0 ? FromErrno(error, "remove " + path) : OkStatus();
}

StatusOr<std::vector<uint32_t>> VolumeSet::NumbersIn(const std::string& directory, Disk& disk) {
  std::vector<uint32_t> numbers;
  QUIRE_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(disk, directory));
  for (const std::string& name : names) {
    if (const auto number = NumberOf(name)) numbers.push_back(*number);
  }
  std::ranges::sort(numbers);
  return numbers;
}

StatusOr<uint64_t> VolumeSet::BytesIn(const std::string& directory, Disk& disk) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<uint32_t> numbers, NumbersIn(directory, disk));
  uint64_t bytes = 0;
  for (const uint32_t number : numbers) {
    DiskEntry entry;
    const std::string path = PathIn(directory, number);
    if (const int error = disk.Examine(path, &entry); error != 0) {
      return FromErrno(error, "examine volume " + path);
    }
    bytes += entry.size_bytes;
  }
  return bytes;
}

std::string VolumeSet::PathIn(const std::string& directory, uint32_t number) {
  return directory + "/" + FileName(number);
}

Status VolumeSet::RemoveHalfMade() {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(disk_, options_.directory));
  for (const std::string& name : names) {
    if (!IsHalfMade(name)) continue;
    const std::string path = options_.directory + "/" + name;
    if (const int error = disk_.Remove(path); error != 0) return FromErrno(error, "remove " + path);
  }
  return OkStatus();
}

StatusOr<bool> VolumeSet::HasHeader(const std::string& path) const {
  DiskEntry entry;
  if (const int error = disk_.Examine(path, &entry); error != 0) {
    return FromErrno(error, "examine volume " + path);
  }
  return entry.size_bytes >= kBlockBytes;
}

Status VolumeSet::OpenAll() {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<uint32_t> numbers, NumbersIn(options_.directory, disk_));
  for (const uint32_t number : numbers) {
    if (!options_.read_only) {
      // A volume without a whole header is lost like a missing one. Users of metadata that names it
      // get DATA_LOSS.
      QUIRE_ASSIGN_OR_RETURN(const bool has_header, HasHeader(PathOf(number)));
      SkipPast(number);
      if (!has_header) continue;
    }
    StatusOr<std::unique_ptr<VolumeFile>> volume =
        VolumeFile::Open(PathOf(number), number, options_.direct, disk_);
    if (volume.ok()) {
      Add(*std::move(volume));
    } else if (!options_.read_only) {
      return volume.status();
    }
  }
  return OkStatus();
}

std::string VolumeSet::PathOf(uint32_t number) const { return PathIn(options_.directory, number); }

void VolumeSet::Add(std::unique_ptr<VolumeFile> volume) {
  MutexLock lock(mutex_);
  total_bytes_ += volume->size_bytes();
  const uint32_t number = volume->number();
  next_number_ = std::max(next_number_, number + 1);
  volumes_.emplace(number, std::move(volume));
}

VolumeFile* VolumeSet::Find(uint32_t number) const {
  MutexLock lock(mutex_);
  const auto found = volumes_.find(number);
  return found == volumes_.end() ? nullptr : found->second.get();
}

std::vector<VolumeFile*> VolumeSet::All() const {
  MutexLock lock(mutex_);
  std::vector<VolumeFile*> all;
  for (const auto& [number, volume] : volumes_) all.push_back(volume.get());
  return all;
}

StatusOr<VolumeHeader> VolumeSet::NextHeader() {
  VolumeHeader header;
  {
    MutexLock lock(mutex_);
    header = {.volume = next_number_, .size_bytes = options_.volume_bytes};
    if (options_.limit_bytes != 0) {
      const uint64_t left = options_.limit_bytes - std::min(options_.limit_bytes, total_bytes_);
      header.size_bytes = std::min(header.size_bytes, RoundDown(left, kBlockBytes));
    }
    if (header.size_bytes < kMinVolumeBytes || header.volume >= kMaxVolumes) {
      return ResourceExhausted("the volumes in ", options_.directory, " have ", total_bytes_,
                               " bytes, the SSD limit of ", options_.limit_bytes,
                               " is reached; delete documents or raise ssd_bytes");
    }
  }
  if (options_.free_bytes == nullptr) return header;
  QUIRE_ASSIGN_OR_RETURN(const uint64_t free_bytes, options_.free_bytes());
  header.size_bytes = std::min(header.size_bytes, RoundDown(free_bytes, kBlockBytes));
  if (header.size_bytes >= kMinVolumeBytes) return header;
  return ResourceExhausted("the file system of ", options_.directory, " has ", free_bytes,
                           " bytes left for volumes, the smallest needs ", kMinVolumeBytes,
                           "; free space there or delete documents, then retry");
}

StatusOr<VolumeFile*> VolumeSet::Grow() {
  QUIRE_ASSIGN_OR_RETURN(VolumeHeader header, NextHeader());
  for (;;) {
    StatusOr<std::unique_ptr<VolumeFile>> volume =
        VolumeFile::Create(PathOf(header.volume), header, options_.direct, options_.faults, disk_);
    if (volume.ok()) {
      VolumeFile* const made = volume->get();
      Add(*std::move(volume));
      return made;
    }
    // Quotas and other writers leave less than the file system reports.
    header.size_bytes = RoundDown(header.size_bytes / 2, kBlockBytes);
    const bool full = volume.status().code() == StatusCode::kResourceExhausted;
    if (!full || header.size_bytes < kMinVolumeBytes) return volume.status();
  }
}

void VolumeSet::SkipPast(uint32_t number) {
  MutexLock lock(mutex_);
  next_number_ = std::max(next_number_, std::min(number, kMaxVolumes - 1) + 1);
}

uint64_t VolumeSet::total_bytes() const {
  MutexLock lock(mutex_);
  return total_bytes_;
}

}  // namespace quire::kvserver
