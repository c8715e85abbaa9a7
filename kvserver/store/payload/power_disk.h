// SPDX-License-Identifier: Apache-2.0
//
// PowerDisk: a disk in memory with a power switch. When the power is cut every call fails, and what
// comes back with Restart is what was synced, and of the rest whatever the seed chooses among what
// POSIX allows:
//
//   bytes     each sector that was written since the file's last sync holds what it held before, or
//             what any of the writes to it since then left; what was never written reads as zeros,
//             now and then as garbage
//   size      the synced one, or any that the file has had since
//   names     each creation and removal since the directory's last sync happened or did not, each
//             on its own, whatever came after it
//   renames   happened, or did not, or happened and left the old name as well; what is under the
//             new name is the one file or the other, never nothing
//
// A directory that is lost takes along all that is below it.
//
// Thread-safety: all methods may be called concurrently; Restart while no other call is made.
// Units: bytes. Errors: as the system's; EIO for everything while the power is off.
#ifndef QUIRE_KVSERVER_STORE_PAYLOAD_POWER_DISK_H_
#define QUIRE_KVSERVER_STORE_PAYLOAD_POWER_DISK_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/random.h"
#include "kvserver/store/payload/disk.h"
#include "kvserver/store/payload/io_engine.h"

namespace quire::kvserver {

class PowerDisk final : public Disk {
 public:
  static constexpr uint64_t kSectorBytes = 512;
  /// Free bytes that this disk reports.
  static constexpr uint64_t kFreeBytes = uint64_t{1} << 40;

  /// Whether a sync of the file or directory that was opened under `path` does nothing.
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

  /// The power goes after so many changes and syncs from now on.
  void CutAfter(uint64_t operations);
  /// The power stays on until somebody cuts it.
  void NeverCut() { CutAfter(UINT64_MAX); }
  bool is_off() const;
  /// Changes and syncs since the disk was made.
  uint64_t operations() const;
  /// The power comes back. Descriptors of before are gone. Whether it was cut or not, what was not
  /// synced is left to `seed`.
  void Restart(uint64_t seed);
  /// From now on this disk lies about some syncs, for tests that show that each is needed. Null:
  /// about none.
  void LieAbout(IgnoresSync ignores);
  /// The power goes `operations` changes and syncs after the `lies`-th sync from now on that is
  /// ignored, unless it goes before. A restart takes that back.
  void CutAfterLie(uint64_t lies, uint64_t operations);
  /// Changes that were forgotten, and those that survived without a sync, over all restarts.
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

  /// 0 when the power is on for one more change; EIO.
  int Spend() QUIRE_REQUIRES(mutex_);
  NodePtr Find(const std::string& path) const QUIRE_REQUIRES(mutex_);
  /// The directory of `path` and the last name in it.
  int FindPlace(const std::string& path, Place* place) const QUIRE_REQUIRES(mutex_);
  NodePtr OfDescriptor(int fd) const QUIRE_REQUIRES(mutex_);
  static DiskEntry EntryOf(const Node& node);
  void CountLie() QUIRE_REQUIRES(mutex_);
  int Resize(int fd, uint64_t bytes, bool may_shrink) QUIRE_REQUIRES(mutex_);
  void Remember(Node& directory, NameChange change) QUIRE_REQUIRES(mutex_);
  /// Decides what is left of a file or a directory when the power comes back.
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
  uint64_t restarts_ QUIRE_GUARDED_BY(mutex_) = 0;  ///< Marks the nodes that were settled.
};

/// An engine over a disk: one request after the other, through its Read, Write and Sync.
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

#endif  // QUIRE_KVSERVER_STORE_PAYLOAD_POWER_DISK_H_
