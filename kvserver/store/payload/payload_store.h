// SPDX-License-Identifier: Apache-2.0
//
// PayloadStore: bytes in large preallocated volumes, read at the speed of the device. It knows
// nothing of segments and stores no metadata. The caller commits each Location that Write returns
// to metadata of its own. Order of a safe commit:
//
//   put:    Write, Sync, commit the Location (a crash before the commit frees the space)
//   read:   StartReading, look the Location up, Read, verify the checksum, drop the guard
//   delete: commit the deletion, Release the Location
//   open:   Recover every Location that the metadata names, FinishRecovery
//
// A Location looked up under a guard stays readable while the guard lives, even if it is released
// meanwhile. Its space is reused once the last such reader has left. No caller waits for that, and
// no lock is held over reads, writes or syncs.
//
// A power failure may undo a deletion's commit and leave a Location whose space has been rewritten.
// The caller's checksum detects that.
//
// Ownership: the engine outlives the store; guards and reads end before it does. Thread-safety: all
// methods may be called concurrently, Recover and FinishRecovery by one thread. Units: bytes.
// Errors: as VolumeSet and ReadRequest. UNAVAILABLE names the file and the place of a device
// failure; RESOURCE_EXHAUSTED names the limit.
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

#include "common/base/observe/counters.h"
#include "common/base/observe/health.h"
#include "common/base/observe/metrics.h"
#include "common/base/threads/mutex.h"
#include "kvserver/store/payload/engine/aligned_buffer.h"
#include "kvserver/store/payload/engine/io_engine.h"
#include "kvserver/store/payload/fault_points.h"
#include "kvserver/store/payload/group_sync.h"
#include "kvserver/store/payload/read_batch.h"
#include "kvserver/store/payload/read_epochs.h"
#include "kvserver/store/payload/volume/location.h"
#include "kvserver/store/payload/volume/space_map.h"
#include "kvserver/store/payload/volume/volume_set.h"
#include "kvserver/store/payload/write_plan.h"
#include "quire/status.h"

namespace quire::kvserver {

class PayloadStore {
 public:
  struct Options {
    VolumeSet::Options volumes;
    AlignedBufferPool::Options buffers;
    FaultPoints* faults = nullptr;  ///< May be null; outlives the store.
    Health* health = nullptr;       ///< May be null; outlives the store.
    /// Receives results of device reads; may be null; outlives the store.
    RecurringTrouble* reads = nullptr;
  };
  class ReadGuard;

  /// Opens the existing volumes. Reads work at once, writes after FinishRecovery.
  static StatusOr<std::unique_ptr<PayloadStore>> Open(const Options& options, IoEngine* engine);
  ~PayloadStore();
  PayloadStore(const PayloadStore&) = delete;
  PayloadStore& operator=(const PayloadStore&) = delete;

  /// Marks the space of a location as used. Returns its bytes that are lost with missing or
  /// truncated volumes; reading those gives DATA_LOSS. DATA_LOSS here means that it is invalid or
  /// overlaps another. On any error nothing is marked: drop the record and do not Release it.
  StatusOr<uint64_t> Recover(const Location& location);
  /// Frees all space that was not recovered.
  void FinishRecovery();
  /// Files of volumes with lost bytes found by Recover, by number.
  std::vector<std::string> LostVolumes() const;

  /// Stores the `bytes` bytes of `source`. It is asked for a span while earlier ones are being
  /// written. A span stays unchanged until this returns. Durable after the next Sync. Errors of the
  /// source are passed on.
  StatusOr<Location> Write(uint64_t bytes, SpanSource source);
  /// Stores the spans one after the other. Durable after the next Sync. After an error nothing is
  /// stored.
  /// - INVALID_ARGUMENT: no bytes, or more than a write can have.
  /// - FAILED_PRECONDITION: before FinishRecovery.
  /// - RESOURCE_EXHAUSTED: there is no space.
  /// - UNAVAILABLE: the device failed now or in an earlier Sync.
  StatusOr<Location> Write(std::span<const ByteSpan> spans);
  /// Makes all earlier writes durable. Concurrent calls share the work. Only volumes written since
  /// their last sync are synced. A removed volume counts as a failure. After a failure no later
  /// Sync or Write can succeed (UNAVAILABLE) until the store is reopened; reads continue.
  Status Sync();
  /// Makes the next Sync cover every volume, after a crash that left unknown ones unsynced.
  void MarkAllDirty();
  /// True when `bytes` are free without another volume, though perhaps in too many pieces.
  bool HasRoom(uint64_t bytes) const;
  /// Size of the next volume, unless a limit makes it smaller.
  uint64_t new_volume_bytes() const { return options_.volumes.volume_bytes; }

  /// Protects Locations looked up from now on from being overwritten.
  [[nodiscard]] ReadGuard StartReading();
  /// Reads all requests concurrently. Each has its own status. Calls `done` for each as soon as it
  /// is complete, while others are in flight.
  void Read(const ReadGuard& guard, std::span<ReadRequest> requests, const ReadDone& done);
  /// Returns the first status that is not OK.
  Status Read(const ReadGuard& guard, std::span<ReadRequest> requests);

  /// Releases a location that the caller's metadata no longer names.
  void Release(const Location& location);

  /// Aligned buffers to read into without a copy.
  AlignedBufferPool& buffers() { return buffers_; }

  /// Size of all volumes together.
  uint64_t volume_bytes() const { return volumes_->total_bytes(); }

  std::string_view engine_name() const { return engine_->name(); }
  /// "direct" or "buffered".
  std::string_view mode() const { return volumes_->direct() ? "direct" : "buffered"; }
  /// payload_read_bytes and payload_write_bytes count requested bytes,
  /// payload_device_{read,write}_bytes transferred ones; their ratios are the amplification.
  /// payload_buffer_bytes is the memory of all buffers, lent and idle.
  void VisitMetrics(MetricsVisitor& visit) const;

 private:
  PayloadStore(const Options& options, std::unique_ptr<VolumeSet> volumes, IoEngine* engine);
  Status CheckWrite(uint64_t bytes);
  StatusOr<std::vector<BlockRun>> AllocateSpace(uint64_t bytes);
  std::optional<std::vector<BlockRun>> TryAllocate(uint64_t bytes);
  /// Frees space. Runs not in use are counted, not freed.
  void FreeSpace(std::span<const BlockRun> runs);
  Status WriteAll(const Location& location, SpanSource source);
  void MarkDirty(const Location& location);
  Status SyncDirty();
  /// Parts of a location's runs that exist in their volumes.
  std::vector<BlockRun> Present(const Location& location) const;
  /// True when its volume has all of a run.
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

  Mutex grow_mutex_;  ///< Held while a volume is made. Taken before space_mutex_.
  mutable Mutex space_mutex_;
  SpaceMap space_ QUIRE_GUARDED_BY(space_mutex_);
  std::set<uint32_t> lost_volumes_ QUIRE_GUARDED_BY(space_mutex_);
  Mutex dirty_mutex_;
  std::set<VolumeFile*> dirty_ QUIRE_GUARDED_BY(dirty_mutex_);

  Counter read_bytes_, device_reads_, device_read_bytes_, buffered_reads_;
  Counter write_bytes_, device_writes_, device_write_bytes_;
  Counter syncs_, device_syncs_, device_errors_, allocation_failures_, wrong_releases_;
};

/// Keeps Locations looked up during its life from being overwritten. Ends before the store.
/// Thread-safety: one holder; Read may use it from several threads.
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
