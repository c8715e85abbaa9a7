// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/metadata/unsynced_changes.h"

#include <iterator>
#include <string>
#include <utility>

namespace quire::kvserver {
namespace {

constexpr std::string_view kPrefix = "unsynced/";
constexpr size_t kNumberBytes = 8;

std::string KeyOf(uint64_t number) {
  std::string key(kPrefix);
  for (int shift = 56; shift >= 0; shift -= 8) key.push_back(static_cast<char>(number >> shift));
  return key;
}

uint64_t NumberOf(std::string_view key) {
  uint64_t number = 0;
  for (const char byte : key.substr(kPrefix.size(), kNumberBytes)) {
    number = number << 8 | static_cast<uint8_t>(byte);
  }
  return number;
}

}  // namespace

uint64_t UnsyncedChanges::StageNote(const SegmentKey& segment, Database::Batch& batch) {
  uint64_t number = 0;
  {
    MutexLock lock(mutex_);
    number = next_number_++;
  }
  batch.Put(Table::kMetadata, KeyOf(number), {segment.view()});
  return number;
}

void UnsyncedChanges::AddNotes(Notes notes) {
  MutexLock lock(mutex_);
  std::ranges::move(notes.numbers, std::back_inserter(added_.notes.numbers));
  added_.notes.bytes += notes.bytes;
}

void UnsyncedChanges::AddSpace(Location location) {
  MutexLock lock(mutex_);
  waiting_bytes_ += TotalBytes(location.runs);
  added_.space.push_back(std::move(location));
}

UnsyncedChanges::Taken UnsyncedChanges::Take() {
  MutexLock lock(mutex_);
  waiting_bytes_ = 0;
  return std::exchange(added_, {});
}

void UnsyncedChanges::GiveBack(Taken taken) {
  AddNotes(std::move(taken.notes));
  for (Location& location : taken.space) AddSpace(std::move(location));
}

void UnsyncedChanges::StageForget(const Notes& notes, Database::Batch& batch) {
  for (const uint64_t number : notes.numbers) batch.Delete(Table::kMetadata, KeyOf(number));
}

uint64_t UnsyncedChanges::noted_bytes() const {
  MutexLock lock(mutex_);
  return added_.notes.bytes;
}

uint64_t UnsyncedChanges::waiting_bytes() const {
  MutexLock lock(mutex_);
  return waiting_bytes_;
}

Status UnsyncedChanges::VisitNotes(Database& database,
                                   const std::function<void(uint64_t, const SegmentKey&)>& visit) {
  const auto each = [&](std::string_view key, std::string_view value) {
    if (!key.starts_with(kPrefix)) return false;
    visit(NumberOf(key), SegmentKey::FromBytes(value).value_or(kRootKey));
    return true;
  };
  return database.Scan(Table::kMetadata, kPrefix, each);
}

}  // namespace quire::kvserver
