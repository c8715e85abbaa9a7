// SPDX-License-Identifier: Apache-2.0
//
// PayloadStore: bytes in large preallocated volumes, read at the speed of the device. It knows
// nothing of segments and stores no metadata: what Write returns is kept by the caller, who commits
// it where it can be found again. The order that makes a commit safe:
//
//   put:    Write, Sync, commit the Location (a crash before the commit frees the space)
//   read:   StartReading, look the Location up, Read, verify the checksum, drop the guard
//   delete: commit that it is gone, Release the Location
//   open:   Recover every Location that the metadata names, FinishRecovery
//
// A Location that was looked up under a guard stays readable while the guard lives, also when it is
// released meanwhile: its space is given out again after the last such reader has gone. Nobody
// waits for that, and no lock is held while anything is read, written or synced.
//
// A deletion whose commit is lost in a power failure can leave a Location whose space has been
// written since; the caller's checksum finds that.
//
// Ownership: the engine outlives the store; guards and reads end before it does.
// Thread-safety: all methods may be called concurrently, Recover and FinishRecovery by one thread.
// Units: bytes.
// Errors: as VolumeSet and ReadRequest. UNAVAILABLE names the file and the place where the device
// failed; RESOURCE_EXHAUSTED says which limit was reached.
#ifndef QUIRE_KVSERVER_STORE_PAYLOAD_PAYLOAD_STORE_H_
#define QUIRE_KVSERVER_STORE_PAYLOAD_PAYLOAD_STORE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/counters.h"
#include "common/base/health.h"
#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "kvserver/store/payload/aligned_buffer.h"
#include "kvserver/store/payload/fault_points.h"
#include "kvserver/store/payload/group_sync.h"
#include "kvserver/store/payload/io_engine.h"
#include "kvserver/store/payload/location.h"
#include "kvserver/store/payload/read_batch.h"
#include "kvserver/store/payload/read_epochs.h"
#include "kvserver/store/payload/space_map.h"
#include "kvserver/store/payload/volume_set.h"
#include "kvserver/store/payload/write_plan.h"
#include "quire/status.h"

namespace quire::kvserver {

class PayloadStore {
 public:
  struct Options {
    VolumeSet::Options volumes;
    AlignedBufferPool::Options buffers;
    FaultPoints* faults = nullptr;      ///< May be null; outlives the store.
    Health* health = nullptr;           ///< The same.
    RecurringTrouble* reads = nullptr;  ///< Told how reads of the device end; the same.
  };
  class ReadGuard;

  /// Opens what is there. Reads work at once, writes after FinishRecovery.
  static StatusOr<std::unique_ptr<PayloadStore>> Open(const Options& options, IoEngine* engine);
  ~PayloadStore();
  PayloadStore(const PayloadStore&) = delete;
  PayloadStore& operator=(const PayloadStore&) = delete;

  /// Marks the space of a location as used. Returns how many bytes of it are lost with volumes that
  /// are missing or were cut; reading those gives DATA_LOSS. An error (DATA_LOSS: it overlaps
  /// another or cannot be) means that nothing was marked: drop the record and do not Release it.
  StatusOr<uint64_t> Recover(const Location& location);
  /// Everything that was not recovered is free from now on.
  void FinishRecovery();
  /// Files of volumes of which Recover found bytes to be lost, by number.
  std::vector<std::string> LostVolumes() const;

  /// Stores what `source` gives, `bytes` bytes. A span is asked for while those before it are being
  /// written, and stays as it is until this returns. Durable after the next Sync. Errors of the
  /// source are passed on.
  StatusOr<Location> Write(uint64_t bytes, SpanSource source);
  /// Stores the spans one after the other. Durable after the next Sync.
  /// INVALID_ARGUMENT for no bytes or more than a write can have, FAILED_PRECONDITION before
  /// FinishRecovery, RESOURCE_EXHAUSTED when there is no space, UNAVAILABLE when the device failed
  /// now or in a Sync before. After an error nothing is stored.
  StatusOr<Location> Write(std::span<const ByteSpan> spans);
  /// Makes everything durable that was written before the call. Concurrent calls share the work;
  /// only volumes written to since their last sync are synced. A volume that was removed meanwhile
  /// is noticed, and is a failure. After a failure no later Sync or
  /// Write can succeed (UNAVAILABLE): open the store again, reads go on.
  Status Sync();
  /// The next Sync covers every volume, as after a crash, when nobody knows which were synced.
  void MarkAllDirty();
  /// Whether so many bytes are free without another volume, though perhaps in too many pieces.
  bool HasRoom(uint64_t bytes) const;
  /// Size of the next volume, unless a limit cuts it.
  uint64_t new_volume_bytes() const { return options_.volumes.volume_bytes; }

  /// Protects what is looked up from now on from being overwritten while it is read.
  [[nodiscard]] ReadGuard StartReading();
  /// Reads all requests, many at once; each has its own status. `done` is called for each as soon
  /// as it has one, while others are being read.
  void Read(const ReadGuard& guard, std::span<ReadRequest> requests, const ReadDone& done);
  /// Returns the first status that is not OK.
  Status Read(const ReadGuard& guard, std::span<ReadRequest> requests);

  /// The caller's metadata does not name the location any more.
  void Release(const Location& location);

  /// Buffers to read into: aligned, so that nothing is copied.
  AlignedBufferPool& buffers() { return buffers_; }

  /// Size of all volumes together.
  uint64_t volume_bytes() const { return volumes_->total_bytes(); }

  std::string_view engine_name() const { return engine_->name(); }
  /// "direct" or "buffered".
  std::string_view mode() const { return volumes_->direct() ? "direct" : "buffered"; }
  /// payload_read_bytes and payload_write_bytes count what callers asked for,
  /// payload_device_{read,write}_bytes what was transferred: their ratios are the amplification.
  /// payload_buffer_bytes is the memory of the buffers, lent and idle.
  void VisitMetrics(MetricsVisitor& visit) const;

 private:
  PayloadStore(const Options& options, std::unique_ptr<VolumeSet> volumes, IoEngine* engine);
  Status CheckWrite(uint64_t bytes);
  StatusOr<std::vector<BlockRun>> AllocateSpace(uint64_t bytes);
  std::optional<std::vector<BlockRun>> TryAllocate(uint64_t bytes);
  /// Gives space out again. Runs that are not in use are counted, not freed.
  void FreeSpace(std::span<const BlockRun> runs);
  Status WriteAll(const Location& location, SpanSource source);
  void MarkDirty(const Location& location);
  Status SyncDirty();
  /// The parts of a location's runs that their volumes have.
  std::vector<BlockRun> Present(const Location& location) const;
  /// Whether its volume has all of a run.
  bool IsPresent(const BlockRun& run) const;
  void LeaveEpoch(ReadEpochs::Epoch epoch);

  const Options options_;
  IoEngine* const engine_;
  const std::unique_ptr<VolumeSet> volumes_;
  // These have their own synchronization.
  AlignedBufferPool buffers_;
  ReadEpochs epochs_;
  GroupSync sync_;
  std::atomic<bool> recovered_{false};

  Mutex grow_mutex_;  ///< Held while a volume is made; taken before space_mutex_.
  mutable Mutex space_mutex_;
  SpaceMap space_ QUIRE_GUARDED_BY(space_mutex_);
  std::set<uint32_t> lost_volumes_ QUIRE_GUARDED_BY(space_mutex_);
  Mutex dirty_mutex_;
  std::set<VolumeFile*> dirty_ QUIRE_GUARDED_BY(dirty_mutex_);

  Counter read_bytes_, device_reads_, device_read_bytes_, buffered_reads_;
  Counter write_bytes_, device_writes_, device_write_bytes_;
  Counter syncs_, device_syncs_, device_errors_, allocation_failures_, wrong_releases_;
};

/// While it lives, nothing that was found in the metadata under it is overwritten. Ends before the
/// store. Thread-safety: one holder; Read may use it from several threads.
class PayloadStore::ReadGuard {
 public:
  ~ReadGuard() {
    if (store_ != nullptr) store_->LeaveEpoch(epoch_);
  }
  ReadGuard(ReadGuard&& other) noexcept
      : store_(std::exchange(other.store_, nullptr)), epoch_(other.epoch_) {}
  ReadGuard& operator=(ReadGuard&&) = delete;

 private:
  friend class PayloadStore;
  ReadGuard(PayloadStore* store, ReadEpochs::Epoch epoch) : store_(store), epoch_(epoch) {}

  PayloadStore* store_;
  const ReadEpochs::Epoch epoch_;
};

inline PayloadStore::ReadGuard PayloadStore::StartReading() { return {this, epochs_.Enter()}; }

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_PAYLOAD_PAYLOAD_STORE_H_
