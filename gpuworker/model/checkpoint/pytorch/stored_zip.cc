// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/model/checkpoint/pytorch/stored_zip.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>

namespace quire::worker {
namespace {

static_assert(std::endian::native == std::endian::little, "ZIP numbers are little endian");

using Bytes = std::span<const std::byte>;

constexpr uint32_t kLocalMark = 0x04034b50, kCentralMark = 0x02014b50, kEndMark = 0x06054b50;
constexpr uint32_t kEnd64Mark = 0x06064b50, kLocator64Mark = 0x07064b50;
constexpr size_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22;
constexpr size_t kEnd64Bytes = 56, kLocator64Bytes = 20;
constexpr size_t kMostComment = 0xffff;
constexpr uint64_t kMostEntries = 1 << 20;
constexpr uint32_t kIn64 = 0xffffffff;  ///< The value stands in a 64-bit field.
constexpr uint16_t kZip64Field = 1;
constexpr uint16_t kEncrypted = 1;

/// The number at `at`; the caller has checked that it lies inside.
template <typename T>
T At(Bytes bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

bool Fits(uint64_t at, uint64_t size, uint64_t all) { return at <= all && size <= all - at; }

/// The central directory of an archive.
struct Directory {
  uint64_t at = 0;
  uint64_t size = 0;
  uint64_t entries = 0;
};

class ZipReader {
 public:
  ZipReader(Bytes bytes, const std::string& file) : bytes_(bytes), file_(file) {}

  StatusOr<ZipEntries> Read() {
    QUIRE_ASSIGN_OR_RETURN(directory_, FindDirectory());
    if (!Fits(directory_.at, directory_.size, bytes_.size())) {
      return Error("its directory lies outside the file");
    }
    if (directory_.entries > kMostEntries) return Error("has ", directory_.entries, " entries");
    ZipEntries entries;
    Bytes rest = bytes_.subspan(directory_.at, directory_.size);
    for (uint64_t i = 0; i < directory_.entries; ++i) {
      QUIRE_RETURN_IF_ERROR(ReadEntry(&rest, &entries));
    }
    return entries;
  }

 private:
  template <typename... Parts>
  Status Error(const Parts&... what) const {
    return InvalidArgument(file_, ": is no archive of PyTorch that can be read: ", what...);
  }

  StatusOr<Directory> FindDirectory() const {
    if (bytes_.size() < kEndBytes) return Error("it is too short");
    const size_t last = bytes_.size() - kEndBytes;
    for (size_t back = 0; back <= std::min(last, kMostComment); ++back) {
      const size_t at = last - back;
      if (At<uint32_t>(bytes_, at) != kEndMark || At<uint16_t>(bytes_, at + 20) != back) continue;
      const std::optional<Directory> large = FindDirectory64(at);
      if (large) return *large;
      return Directory{.at = At<uint32_t>(bytes_, at + 16),
                       .size = At<uint32_t>(bytes_, at + 12),
                       .entries = At<uint16_t>(bytes_, at + 10)};
    }
    return Error("it has no end of a directory; an old torch.save wrote no archive");
  }

  /// The directory of ZIP64, whose locator stands before the end record at `end`.
  std::optional<Directory> FindDirectory64(size_t end) const {
    if (end < kLocator64Bytes) return std::nullopt;
    const size_t locator = end - kLocator64Bytes;
    if (At<uint32_t>(bytes_, locator) != kLocator64Mark) return std::nullopt;
    const auto at = At<uint64_t>(bytes_, locator + 8);
    if (!Fits(at, kEnd64Bytes, bytes_.size()) || At<uint32_t>(bytes_, at) != kEnd64Mark) {
      return std::nullopt;
    }
    return Directory{.at = At<uint64_t>(bytes_, at + 48),
                     .size = At<uint64_t>(bytes_, at + 40),
                     .entries = At<uint64_t>(bytes_, at + 32)};
  }

  Status ReadEntry(Bytes* rest, ZipEntries* entries) const {
    const Bytes header = *rest;
    if (header.size() < kCentralBytes || At<uint32_t>(header, 0) != kCentralMark) {
      return Error("its directory is damaged");
    }
    const uint64_t name_bytes = At<uint16_t>(header, 28), extra_bytes = At<uint16_t>(header, 30);
    const uint64_t whole = kCentralBytes + name_bytes + extra_bytes + At<uint16_t>(header, 32);
    if (whole > header.size()) return Error("its directory is damaged");
    const std::string name(reinterpret_cast<const char*>(header.data()) + kCentralBytes,
                           name_bytes);
    if ((At<uint16_t>(header, 8) & kEncrypted) != 0) return Error("entry ", name, " is encrypted");
    if (At<uint16_t>(header, 10) != 0) return Error("entry ", name, " is compressed");
    QUIRE_ASSIGN_OR_RETURN(
        const Bytes data,
        DataOf(header, header.subspan(kCentralBytes + name_bytes, extra_bytes), name));
    if (!entries->emplace(name, data).second) return Error("has two entries ", name);
    *rest = header.subspan(whole);
    return OkStatus();
  }

  /// The bytes of an entry, from its header in the directory and that header's extra fields.
  StatusOr<Bytes> DataOf(Bytes header, Bytes extra, const std::string& name) const {
    uint64_t size = At<uint32_t>(header, 24), packed = At<uint32_t>(header, 20);
    uint64_t at = At<uint32_t>(header, 42);
    Bytes large = Zip64Field(extra);
    for (uint64_t* const value : {&size, &packed, &at}) {
      if (*value != kIn64) continue;
      if (large.size() < sizeof(uint64_t)) return Error("entry ", name, " lacks its 64-bit sizes");
      *value = At<uint64_t>(large, 0);
      large = large.subspan(sizeof(uint64_t));
    }
    if (packed != size) return Error("entry ", name, " has two sizes");
    if (!Fits(at, kLocalBytes, directory_.at) || At<uint32_t>(bytes_, at) != kLocalMark) {
      return Error("entry ", name, " does not begin where its directory says");
    }
    const uint64_t begin =
        at + kLocalBytes + At<uint16_t>(bytes_, at + 26) + uint64_t{At<uint16_t>(bytes_, at + 28)};
    if (!Fits(begin, size, directory_.at)) return Error("entry ", name, " lies outside the file");
    return bytes_.subspan(begin, size);
  }

  /// The values of the field of ZIP64; empty without one.
  static Bytes Zip64Field(Bytes extra) {
    while (extra.size() >= 4) {
      const size_t size = At<uint16_t>(extra, 2);
      if (size > extra.size() - 4) return {};
      if (At<uint16_t>(extra, 0) == kZip64Field) return extra.subspan(4, size);
      extra = extra.subspan(4 + size);
    }
    return {};
  }

  const Bytes bytes_;
  const std::string& file_;
  Directory directory_;
};

}  // namespace

StatusOr<ZipEntries> ReadStoredZip(std::span<const std::byte> bytes, const std::string& file) {
  return ZipReader(bytes, file).Read();
}

}  // namespace quire::worker
