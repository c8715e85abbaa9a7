// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/payload/testing/power_disk.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

namespace quire::kvserver {
namespace {

/// Above every descriptor of the system, so that they cannot be confused.
constexpr int kFirstDescriptor = 1 << 24;

/// The names of a path, from the root on.
std::vector<std::string> Split(const std::string& path) {
  std::vector<std::string> names;
  for (size_t at = 0; at < path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    const std::string name = path.substr(at, end - at);
    if (!name.empty() && name != ".") names.push_back(name);
    at = end + 1;
  }
  return names;
}

uint64_t SectorsUpTo(uint64_t bytes) {
  return (bytes + PowerDisk::kSectorBytes - 1) / PowerDisk::kSectorBytes;
}

}  // namespace

/// A write, when it has bytes, or a change of size.
struct PowerDisk::FileChange {
  uint64_t offset = 0;
  std::vector<std::byte> bytes;
  uint64_t size = 0;  ///< Size of the file after the change.

  void ApplyTo(std::vector<std::byte>& contents) const {
    contents.resize(size);
    std::copy(bytes.begin(), bytes.end(), contents.begin() + static_cast<std::ptrdiff_t>(offset));
  }
};

/// Node of a name from now on; null removes the name. A rename also removes the old name.
struct PowerDisk::NameChange {
  std::string name;
  NodePtr node;
  std::optional<std::string> old_name;
};

struct PowerDisk::Node {
  bool is_directory = false;
  uint64_t settled = 0;  ///< Number of the last restart that settled it.
  bool locked = false;
  // Fields of a file.
  std::vector<std::byte> bytes;
  std::vector<std::byte> synced_bytes;
  std::vector<FileChange> file_changes;  ///< Since the last sync.
  // Fields of a directory.
  std::map<std::string, NodePtr> names;
  std::map<std::string, NodePtr> synced_names;
  std::vector<NameChange> name_changes;  ///< Since the last sync.
};

struct PowerDisk::Place {
  NodePtr directory;
  std::string name;
  NodePtr node;  ///< Node under the name; may be null.
};

PowerDisk::PowerDisk() : root_(std::make_shared<Node>()) {
  root_->is_directory = true;
  MutexLock lock(mutex_);
  next_fd_ = kFirstDescriptor;
}

// Directories own their contents, and nothing owns its owner: there are no cycles.
PowerDisk::~PowerDisk() = default;

int PowerDisk::Spend() {
  if (!off_ && operations_ >= cut_at_) off_ = true;
  if (off_) return EIO;
  ++operations_;
  return 0;
}

PowerDisk::NodePtr PowerDisk::Find(const std::string& path) const {
  NodePtr node = root_;
  for (const std::string& name : Split(path)) {
    const auto found = node->names.find(name);
    if (found == node->names.end()) return nullptr;
    node = found->second;
  }
  return node;
}

int PowerDisk::FindPlace(const std::string& path, Place* place) const {
  std::vector<std::string> names = Split(path);
  if (names.empty()) return EINVAL;
  place->name = std::move(names.back());
  names.pop_back();
  NodePtr node = root_;
  for (const std::string& name : names) {
    if (!node->is_directory) return ENOTDIR;
    const auto found = node->names.find(name);
    if (found == node->names.end()) return ENOENT;
    node = found->second;
  }
  if (!node->is_directory) return ENOTDIR;
  place->directory = node;
  const auto found = node->names.find(place->name);
  place->node = found == node->names.end() ? nullptr : found->second;
  return 0;
}

PowerDisk::NodePtr PowerDisk::OfDescriptor(int fd) const {
  const auto found = open_.find(fd);
  return found == open_.end() ? nullptr : found->second.node;
}

void PowerDisk::Remember(Node& directory, NameChange change) {
  auto& names = directory.names;
  if (change.old_name) names.erase(*change.old_name);
  if (change.node == nullptr) {
    names.erase(change.name);
  } else {
    names[change.name] = change.node;
  }
  directory.name_changes.push_back(std::move(change));
}

int PowerDisk::Open(const std::string& path, int flags) {
  MutexLock lock(mutex_);
  if (off_) return -EIO;
  NodePtr node = Split(path).empty() ? root_ : nullptr;
  if (node == nullptr) {
    Place place;
    if (const int error = FindPlace(path, &place); error != 0) return -error;
    node = place.node;
    if (node == nullptr) {
      if ((flags & O_CREAT) == 0) return -ENOENT;
      if (const int error = Spend(); error != 0) return -error;
      node = std::make_shared<Node>();
      Remember(*place.directory, {.name = place.name, .node = node, .old_name = {}});
    } else if ((flags & O_EXCL) != 0) {
      return -EEXIST;
    }
  }
  const bool writes = (flags & O_ACCMODE) != O_RDONLY;
  if (node->is_directory && writes) return -EISDIR;
  if (!node->is_directory && (flags & O_DIRECTORY) != 0) return -ENOTDIR;
  if ((flags & O_TRUNC) != 0 && !node->bytes.empty()) {
    if (const int error = Spend(); error != 0) return -error;
    node->bytes.clear();
    node->file_changes.push_back({});
  }
  open_.emplace(next_fd_, OpenNode{std::move(node), path});
  return next_fd_++;
}

void PowerDisk::Close(int fd) {
  MutexLock lock(mutex_);
  const auto found = open_.find(fd);
  if (found == open_.end()) return;  // It was opened before the power cut.
  // The holder of a lock has one descriptor of the file.
  found->second.node->locked = false;
  open_.erase(found);
}

DiskEntry PowerDisk::EntryOf(const Node& node) {
  return {.is_directory = node.is_directory,
          .size_bytes = node.bytes.size(),
          .file = reinterpret_cast<uint64_t>(&node)};
}

int PowerDisk::Examine(const std::string& path, DiskEntry* entry) {
  MutexLock lock(mutex_);
  if (off_) return EIO;
  NodePtr node = root_;
  if (!Split(path).empty()) {
    Place place;
    if (const int error = FindPlace(path, &place); error != 0) return error;
    node = place.node;
  }
  if (node == nullptr) return ENOENT;
  *entry = EntryOf(*node);
  return 0;
}

int PowerDisk::Examine(int fd, DiskEntry* entry) {
  MutexLock lock(mutex_);
  if (off_) return EIO;
  const NodePtr node = OfDescriptor(fd);
  if (node == nullptr) return EBADF;
  *entry = EntryOf(*node);
  return 0;
}

int64_t PowerDisk::Read(int fd, uint64_t offset, std::span<std::byte> into) {
  MutexLock lock(mutex_);
  if (off_) return -EIO;
  const NodePtr node = OfDescriptor(fd);
  if (node == nullptr) return -EBADF;
  if (node->is_directory) return -EISDIR;
  if (offset >= node->bytes.size()) return 0;
  const auto there = std::span(node->bytes).subspan(offset);
  const size_t size = std::min(there.size(), into.size());
  std::copy_n(there.begin(), size, into.begin());
  return static_cast<int64_t>(size);
}

int PowerDisk::Write(int fd, uint64_t offset, std::span<const std::byte> bytes) {
  MutexLock lock(mutex_);
  const NodePtr node = OfDescriptor(fd);
  if (off_) return EIO;
  if (node == nullptr || node->is_directory) return EBADF;
  if (bytes.empty()) return 0;
  if (const int error = Spend(); error != 0) return error;
  const uint64_t size = std::max<uint64_t>(node->bytes.size(), offset + bytes.size());
  const FileChange& change =
      node->file_changes.emplace_back(FileChange{offset, {bytes.begin(), bytes.end()}, size});
  change.ApplyTo(node->bytes);
  return 0;
}

int PowerDisk::Resize(int fd, uint64_t bytes, bool may_shrink) {
  const NodePtr node = OfDescriptor(fd);
  if (off_) return EIO;
  if (node == nullptr || node->is_directory) return EBADF;
  if (bytes > kFreeBytes) return ENOSPC;
  if (bytes == node->bytes.size() || (bytes < node->bytes.size() && !may_shrink)) return 0;
  if (const int error = Spend(); error != 0) return error;
  node->file_changes.push_back({.offset = 0, .bytes = {}, .size = bytes});
  node->bytes.resize(bytes);
  return 0;
}

int PowerDisk::Allocate(int fd, uint64_t bytes) {
  MutexLock lock(mutex_);
  return Resize(fd, bytes, /*may_shrink=*/false);
}

int PowerDisk::Truncate(int fd, uint64_t bytes) {
  MutexLock lock(mutex_);
  return Resize(fd, bytes, /*may_shrink=*/true);
}

int PowerDisk::Sync(int fd) {
  MutexLock lock(mutex_);
  const NodePtr node = OfDescriptor(fd);
  if (off_) return EIO;
  if (node == nullptr) return EBADF;
  if (const int error = Spend(); error != 0) return error;
  if (ignores_ && ignores_(open_.at(fd).path)) {
    CountLie();
    return 0;
  }
  if (node->is_directory) {
    node->synced_names = node->names;
    node->name_changes.clear();
    return 0;
  }
  for (const FileChange& change : node->file_changes) change.ApplyTo(node->synced_bytes);
  node->file_changes.clear();
  return 0;
}

int PowerDisk::Lock(int fd) {
  MutexLock lock(mutex_);
  const NodePtr node = OfDescriptor(fd);
  if (off_) return EIO;
  if (node == nullptr) return EBADF;
  return std::exchange(node->locked, true) ? EWOULDBLOCK : 0;
}

int PowerDisk::SetDirect(int /*fd*/, bool direct) { return direct ? EINVAL : 0; }

int PowerDisk::MakeDirectory(const std::string& path) {
  MutexLock lock(mutex_);
  if (off_) return EIO;
  if (Split(path).empty()) return EEXIST;
  Place place;
  if (const int error = FindPlace(path, &place); error != 0) return error;
  if (place.node != nullptr) return EEXIST;
  if (const int error = Spend(); error != 0) return error;
  const auto node = std::make_shared<Node>();
  node->is_directory = true;
  Remember(*place.directory, {.name = place.name, .node = node, .old_name = {}});
  return 0;
}

int PowerDisk::List(const std::string& path, std::vector<std::string>* names) {
  MutexLock lock(mutex_);
  names->clear();
  if (off_) return EIO;
  const NodePtr node = Find(path);
  if (node == nullptr) return ENOENT;
  if (!node->is_directory) return ENOTDIR;
  for (const auto& [name, child] : node->names) names->push_back(name);
  return 0;
}

int PowerDisk::Rename(const std::string& from, const std::string& to) {
  MutexLock lock(mutex_);
  if (off_) return EIO;
  Place old_place, new_place;
  if (const int error = FindPlace(from, &old_place); error != 0) return error;
  if (const int error = FindPlace(to, &new_place); error != 0) return error;
  if (old_place.node == nullptr) return ENOENT;
  if (old_place.directory != new_place.directory) return EXDEV;
  if (old_place.node == new_place.node) return 0;
  if (const int error = Spend(); error != 0) return error;
  Remember(*new_place.directory,
           {.name = new_place.name, .node = old_place.node, .old_name = old_place.name});
  return 0;
}

int PowerDisk::Remove(const std::string& path) {
  MutexLock lock(mutex_);
  if (off_) return EIO;
  Place place;
  if (const int error = FindPlace(path, &place); error != 0) return error;
  if (place.node == nullptr) return ENOENT;
  if (!place.node->names.empty()) return ENOTEMPTY;
  if (const int error = Spend(); error != 0) return error;
  Remember(*place.directory, {.name = place.name, .node = nullptr, .old_name = {}});
  return 0;
}

int PowerDisk::FreeBytes(const std::string& /*path*/, uint64_t* bytes) {
  MutexLock lock(mutex_);
  if (off_) return EIO;
  *bytes = kFreeBytes;
  return 0;
}

void PowerDisk::CutAfter(uint64_t operations) {
  MutexLock lock(mutex_);
  cut_at_ = operations < UINT64_MAX - operations_ ? operations_ + operations : UINT64_MAX;
}

bool PowerDisk::is_off() const {
  MutexLock lock(mutex_);
  return off_;
}

uint64_t PowerDisk::operations() const {
  MutexLock lock(mutex_);
  return operations_;
}

void PowerDisk::LieAbout(IgnoresSync ignores) {
  MutexLock lock(mutex_);
  ignores_ = std::move(ignores);
}

void PowerDisk::CutAfterLie(uint64_t lies, uint64_t operations) {
  MutexLock lock(mutex_);
  lies_until_cut_ = lies;
  operations_after_lie_ = operations;
}

void PowerDisk::CountLie() {
  if (lies_until_cut_ == 0 || --lies_until_cut_ > 0) return;
  cut_at_ = std::min(cut_at_, operations_ + operations_after_lie_);
}

uint64_t PowerDisk::forgotten() const {
  MutexLock lock(mutex_);
  return forgotten_;
}

uint64_t PowerDisk::survived() const {
  MutexLock lock(mutex_);
  return survived_;
}

void PowerDisk::Restart(uint64_t seed) {
  MutexLock lock(mutex_);
  SeededRandom random(seed);
  open_.clear();
  off_ = false;
  cut_at_ = UINT64_MAX;
  lies_until_cut_ = 0;
  ++restarts_;
  Settle(*root_, random);
}

void PowerDisk::Settle(Node& node, Random& random) {
  if (node.settled == restarts_) return;  // The file has two names.
  node.settled = restarts_;
  node.locked = false;
  if (!node.is_directory) return SettleFile(node, random);
  SettleNames(node, random);
  for (const auto& [name, child] : node.names) Settle(*child, random);
}

void PowerDisk::SettleNames(Node& directory, Random& random) {
  auto names = directory.synced_names;
  // Sometimes everything or nothing is lost, as on most disks.
  const uint64_t mood = random.Below(4);
  for (const NameChange& change : directory.name_changes) {
    const bool kept = mood == 0 || (mood != 1 && random.Below(2) == 0);
    ++(kept ? survived_ : forgotten_);
    if (!kept) continue;
    if (change.node == nullptr) {
      names.erase(change.name);
    } else {
      names[change.name] = change.node;
    }
    if (change.old_name && random.Below(4) != 0) names.erase(*change.old_name);
  }
  directory.name_changes.clear();
  directory.synced_names = names;
  directory.names = std::move(names);
}

void PowerDisk::SettleFile(Node& file, Random& random) {
  const std::vector<FileChange> changes = std::exchange(file.file_changes, {});
  std::vector<std::byte> bytes = file.synced_bytes;
  const uint64_t mood = random.Below(4);
  const bool garbage = random.Below(8) == 0;
  // Number of changes after which the file had its final size.
  const uint64_t resized = mood == 0   ? changes.size()
                           : mood == 1 ? 0
                                       : random.Below(changes.size() + 1);
  bytes.resize(resized == 0 ? bytes.size() : changes[resized - 1].size);
  for (uint64_t at = file.synced_bytes.size(); garbage && at < bytes.size(); ++at) {
    bytes[at] = static_cast<std::byte>(random.Next());
  }
  // Writes to each sector, in order. A prefix of them has reached the device.
  std::map<uint64_t, std::vector<const FileChange*>> writes;
  for (const FileChange& change : changes) {
    const uint64_t end = SectorsUpTo(change.offset + change.bytes.size());
    if (change.bytes.empty()) continue;
    for (uint64_t sector = change.offset / kSectorBytes; sector < end; ++sector) {
      writes[sector].push_back(&change);
    }
  }
  for (const auto& [sector, of_sector] : writes) {
    const uint64_t kept = mood == 0   ? of_sector.size()
                          : mood == 1 ? 0
                                      : random.Below(of_sector.size() + 1);
    survived_ += kept;
    forgotten_ += of_sector.size() - kept;
    for (uint64_t i = 0; i < kept; ++i) {
      const FileChange& change = *of_sector[i];
      const uint64_t begin = std::max(sector * kSectorBytes, change.offset);
      const uint64_t end = std::min<uint64_t>(
          {(sector + 1) * kSectorBytes, change.offset + change.bytes.size(), bytes.size()});
      for (uint64_t at = begin; at < end; ++at) bytes[at] = change.bytes[at - change.offset];
    }
  }
  file.synced_bytes = bytes;
  file.bytes = std::move(bytes);
}

void DiskEngine::Run(IoStream& stream) {
  while (IoRequest* const request = stream.Next()) {
    RunOne(*request);
    stream.Ended(*request);
  }
}

void DiskEngine::RunOne(IoRequest& request) {
  const std::span<std::byte> buffer(request.buffer, request.length);
  if (request.kind == IoRequest::Kind::kWrite) {
    request.error = disk_.Write(request.fd, request.offset, buffer);
    if (request.error == 0) request.done = request.length;
    return;
  }
  const int64_t read = disk_.Read(request.fd, request.offset, buffer);
  if (read < 0) {
    request.error = static_cast<int>(-read);
  } else {
    request.done = static_cast<size_t>(read);
  }
}

}  // namespace quire::kvserver
