// SPDX-License-Identifier: Apache-2.0
//
// PowerDisk: a disk in memory with a power switch. After a cut every call fails. Restart brings
// back all synced state, and lets the seed choose the rest among the outcomes that POSIX allows:
//
//   bytes     each sector written since the file's last sync has its old contents, or those of any
//             write since then; an unwritten one reads as zeros, or now and then as garbage
//   size      the synced one, or any that the file has had since
//   names     each creation and removal since the directory's last sync happened or did not, each
//             independently of later ones
//   renames   happened, did not happen, or happened and left the old name as well; the new name is
//             the one file or the other, never nothing
//
// A lost directory takes everything below it along.
//
// Thread-safety: all methods may be called concurrently; Restart without other calls in flight.
// Units: bytes. Errors: as the system's; EIO for everything while the power is off.
#ifndef QUIRE_KVSERVER_STORE_PAYLOAD_TESTING_POWER_DISK_H_
#define QUIRE_KVSERVER_STORE_PAYLOAD_TESTING_POWER_DISK_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "common/base/threads/mutex.h"
#include "kvserver/store/payload/disk.h"
#include "kvserver/store/payload/engine/io_engine.h"

namespace quire::kvserver {

class PowerDisk final : public Disk {
 public:
  static constexpr uint64_t kSectorBytes = 512;
  /// Free bytes that this disk reports.
  static constexpr uint64_t kFreeBytes = uint64_t{1} << 40;

  /// True for a `path` whose file or directory ignores syncs.
  using IgnoresSync = std::function<bool(const std::string& path)>;

  PowerDisk();
  ~PowerDisk() override;

  int Open(const std::string& path, int flags) override;
  void Close(int fd) override;
  int Examine(const std::string& path, DiskEntry* entry) override;
  int Examine(int fd, DiskEntry* entry) override;
  int64_t Read(int fd, uint64_t offset, std::span<std::byte> into) override;
  int Write(int fd, uint64_t offset, std::span<const std::byte> bytes) override;
  int Allocate(int fd, uint64_t bytes) override;
  int Truncate(int fd, uint64_t bytes) override;
  int Sync(int fd) override;
  int Lock(int fd) override;
  int SetDirect(int fd, bool direct) override;
  int MakeDirectory(const std::string& path) override;
  int List(const std::string& path, std::vector<std::string>* names) override;
  int Rename(const std::string& from, const std::string& to) override;
  int Remove(const std::string& path) override;
  int FreeBytes(const std::string& path, uint64_t* bytes) override;

  /// Cuts the power after `operations` more changes and syncs.
  void CutAfter(uint64_t operations);
  /// Keeps the power on until the next CutAfter.
  void NeverCut() { CutAfter(UINT64_MAX); }
  bool is_off() const;
  /// Changes and syncs since the disk was made.
  uint64_t operations() const;
  /// Restores the power. Older descriptors are invalid. `seed` decides on unsynced state, even
  /// without a cut.
  void Restart(uint64_t seed);
  /// Ignores some syncs from now on, for tests that show that each is needed. Null: none.
  void LieAbout(IgnoresSync ignores);
  /// Cuts the power `operations` changes and syncs after the `lies`-th ignored sync, unless it goes
  /// earlier. Restart cancels it.
  void CutAfterLie(uint64_t lies, uint64_t operations);
  /// Unsynced changes that were lost, and that survived, over all restarts.
  uint64_t forgotten() const;
  uint64_t survived() const;

 private:
  struct Node;
  using NodePtr = std::shared_ptr<Node>;
  struct OpenNode {
    NodePtr node;
    std::string path;
  };
  struct FileChange;
  struct NameChange;
  struct Place;

  /// Uses up one operation. Returns 0, or EIO once the power is off.
  int Spend() QUIRE_REQUIRES(mutex_);
  NodePtr Find(const std::string& path) const QUIRE_REQUIRES(mutex_);
  /// Finds the directory of `path` and the last name in it.
  int FindPlace(const std::string& path, Place* place) const QUIRE_REQUIRES(mutex_);
  NodePtr OfDescriptor(int fd) const QUIRE_REQUIRES(mutex_);
  static DiskEntry EntryOf(const Node& node);
  void CountLie() QUIRE_REQUIRES(mutex_);
  int Resize(int fd, uint64_t bytes, bool may_shrink) QUIRE_REQUIRES(mutex_);
  void Remember(Node& directory, NameChange change) QUIRE_REQUIRES(mutex_);
  /// Decides on the unsynced state of a file or directory at Restart.
  void Settle(Node& node, Random& random) QUIRE_REQUIRES(mutex_);
  void SettleFile(Node& file, Random& random) QUIRE_REQUIRES(mutex_);
  void SettleNames(Node& directory, Random& random) QUIRE_REQUIRES(mutex_);

  mutable Mutex mutex_;
  const NodePtr root_;
  std::map<int, OpenNode> open_ QUIRE_GUARDED_BY(mutex_);
  int next_fd_ QUIRE_GUARDED_BY(mutex_);
  uint64_t operations_ QUIRE_GUARDED_BY(mutex_) = 0;
  uint64_t cut_at_ QUIRE_GUARDED_BY(mutex_) = UINT64_MAX;
  bool off_ QUIRE_GUARDED_BY(mutex_) = false;
  IgnoresSync ignores_ QUIRE_GUARDED_BY(mutex_);
  uint64_t lies_until_cut_ QUIRE_GUARDED_BY(mutex_) = 0;  ///< 0: lies cut nothing.
  uint64_t operations_after_lie_ QUIRE_GUARDED_BY(mutex_) = 0;
  uint64_t forgotten_ QUIRE_GUARDED_BY(mutex_) = 0;
  uint64_t survived_ QUIRE_GUARDED_BY(mutex_) = 0;
  uint64_t restarts_ QUIRE_GUARDED_BY(mutex_) = 0;  ///< Marks nodes already settled.
};

/// An engine over a disk: runs one request after the other by its Read, Write and Sync.
class DiskEngine final : public IoEngine {
 public:
  /// `disk` outlives the engine.
  explicit DiskEngine(Disk* disk) : disk_(*disk) {}
  std::string_view name() const override { return "disk"; }
  void Run(IoStream& stream) override;
  int Sync(int fd) override { return disk_.Sync(fd); }

 private:
  void RunOne(IoRequest& request);

  Disk& disk_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_PAYLOAD_TESTING_POWER_DISK_H_
