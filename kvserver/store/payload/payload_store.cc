// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/payload/payload_store.h"

#include <algorithm>
#include <utility>

#include "kvserver/store/payload/engine/io_status.h"
#include "kvserver/store/payload/write_batch.h"

namespace quire::kvserver {
namespace {

uint64_t BytesOf(std::span<const ByteSpan> spans) {
  uint64_t bytes = 0;
  for (const ByteSpan span : spans) bytes += span.size();
  return bytes;
}

/// Returns an error for an impossible location from the metadata.
Status CheckShape(const Location& location) {
  uint64_t room = 0;
  for (const BlockRun& run : location.runs) {
    if (run.length > UINT64_MAX - room) return DataLoss("its runs are longer than any file");
    room += run.length;
  }
  const bool fits = location.bytes > 0 && room >= location.bytes &&
                    room - location.bytes < kBlockBytes && room % kBlockBytes == 0;
  if (fits) return OkStatus();
  return DataLoss("a location of ", location.bytes, " bytes has runs of ", room);
}

/// DATA_LOSS concerns stored bytes, and is no device failure.
void TellOfRead(const Status& status, RecurringTrouble* reads) {
  if (status.ok()) return reads->Succeeded();
  if (IsUnavailable(status)) reads->Failed(Message(status));
}

}  // namespace

StatusOr<std::unique_ptr<PayloadStore>> PayloadStore::Open(const Options& options,
                                                           IoEngine* engine) {
  QUIRE_ASSIGN_OR_RETURN(auto volumes, VolumeSet::Open(options.volumes));
  return std::unique_ptr<PayloadStore>(new PayloadStore(options, std::move(volumes), engine));
}

PayloadStore::PayloadStore(const Options& options, std::unique_ptr<VolumeSet> volumes,
                           IoEngine* engine)
    : options_(options),
      engine_(engine),
      volumes_(std::move(volumes)),
      buffers_(options.buffers),
      sync_([this] { return SyncDirty(); }) {
  MutexLock lock(space_mutex_);
  for (const VolumeFile* volume : volumes_->All()) {
    const uint64_t end = std::max(volume->present_bytes(), kBlockBytes);
    // The set has every volume once, and whole blocks of it.
    (void)space_.AddVolume(volume->number(), kBlockBytes, end);
  }
}

PayloadStore::~PayloadStore() = default;

std::vector<BlockRun> PayloadStore::Present(const Location& location) const {
  std::vector<BlockRun> present;
  for (BlockRun run : location.runs) {
    const VolumeFile* const volume = volumes_->Find(run.volume);
    if (volume == nullptr || run.offset >= volume->present_bytes()) continue;
    // A run past the volume's own size is kept, for the space map to refuse.
    if (run.length <= volume->size_bytes() - run.offset) {
      run.length = std::min(run.length, volume->present_bytes() - run.offset);
    }
    present.push_back(run);
  }
  return present;
}

bool PayloadStore::IsPresent(const BlockRun& run) const {
  const VolumeFile* const volume = volumes_->Find(run.volume);
  return volume != nullptr && run.offset + run.length <= volume->present_bytes();
}

StatusOr<uint64_t> PayloadStore::Recover(const Location& location) {
  QUIRE_RETURN_IF_ERROR(CheckShape(location));
  for (const BlockRun& run : location.runs) volumes_->SkipPast(run.volume);
  const std::vector<BlockRun> present = Present(location);
  Reach(options_.faults, FaultPoint::kRecovering);
  MutexLock lock(space_mutex_);
  QUIRE_RETURN_IF_ERROR(space_.Reserve(present));
  const uint64_t room = TotalBytes(present);
  if (room < location.bytes) {
    for (const BlockRun& run : location.runs) {
      if (!IsPresent(run)) lost_volumes_.insert(run.volume);
    }
  }
  return location.bytes - std::min(location.bytes, room);
}

void PayloadStore::FinishRecovery() { recovered_.store(true); }

std::vector<std::string> PayloadStore::LostVolumes() const {
  std::vector<std::string> paths;
  MutexLock lock(space_mutex_);
  for (const uint32_t number : lost_volumes_) {
    paths.push_back(VolumeSet::PathIn(options_.volumes.directory, number));
  }
  return paths;
}

Status PayloadStore::CheckWrite(uint64_t bytes) {
  if (bytes == 0) return InvalidArgument("a write of no bytes");
  const uint64_t most = SpaceMap::kMaxRuns * (options_.volumes.volume_bytes - kBlockBytes);
  if (bytes > most) {
    return InvalidArgument("a write of ", bytes, " bytes; with volumes of ",
                           options_.volumes.volume_bytes, " bytes it can have ", most);
  }
  if (!recovered_.load()) return FailedPrecondition("the payload store is not recovered yet");
  return Annotate(sync_.failure(), "no more writes after a failed sync, open the store again");
}

StatusOr<Location> PayloadStore::Write(std::span<const ByteSpan> spans) {
  auto next = spans.begin();
  return Write(BytesOf(spans), [&next]() -> StatusOr<ByteSpan> {
    while (next->empty()) ++next;
    return *next++;
  });
}

StatusOr<Location> PayloadStore::Write(uint64_t bytes, SpanSource source) {
  QUIRE_RETURN_IF_ERROR(CheckWrite(bytes));
  Location location;
  location.bytes = bytes;
  QUIRE_ASSIGN_OR_RETURN(location.runs, AllocateSpace(bytes));
  if (const Status status = WriteAll(location, std::move(source)); !status.ok()) {
    FreeSpace(location.runs);
    return status;
  }
  MarkDirty(location);
  write_bytes_.Add(bytes);
  return location;
}

std::optional<std::vector<BlockRun>> PayloadStore::TryAllocate(uint64_t bytes) {
  MutexLock lock(space_mutex_);
  return space_.Allocate(bytes);
}

StatusOr<std::vector<BlockRun>> PayloadStore::AllocateSpace(uint64_t bytes) {
  if (auto runs = TryAllocate(bytes)) return *std::move(runs);
  MutexLock growing(grow_mutex_);
  for (;;) {
    if (auto runs = TryAllocate(bytes)) return *std::move(runs);
    const StatusOr<VolumeFile*> volume = volumes_->Grow();
    if (!volume.ok()) {
      allocation_failures_.Add();
      return Annotate(volume.status(), "no space for ", bytes, " bytes");
    }
    MutexLock lock(space_mutex_);
    QUIRE_RETURN_IF_ERROR(
        space_.AddVolume((*volume)->number(), kBlockBytes, (*volume)->present_bytes()));
  }
}

void PayloadStore::FreeSpace(std::span<const BlockRun> runs) {
  MutexLock lock(space_mutex_);
  for (const BlockRun& run : runs) {
    if (!space_.Free({&run, 1}).ok()) wrong_releases_.Add();
  }
}

Status PayloadStore::WriteAll(const Location& location, SpanSource source) {
  WriteBatch batch(*volumes_, buffers_, location, std::move(source));
  engine_->Run(batch);
  device_writes_.Add(batch.totals().writes);
  device_write_bytes_.Add(batch.totals().bytes);
  device_errors_.Add(batch.totals().errors);
  QUIRE_RETURN_IF_ERROR(batch.status());
  Reach(options_.faults, FaultPoint::kDataWritten);
  return OkStatus();
}

void PayloadStore::MarkDirty(const Location& location) {
  MutexLock lock(dirty_mutex_);
  for (const BlockRun& run : location.runs) dirty_.insert(volumes_->Find(run.volume));
}

void PayloadStore::MarkAllDirty() {
  MutexLock lock(dirty_mutex_);
  for (VolumeFile* volume : volumes_->All()) dirty_.insert(volume);
}

bool PayloadStore::HasRoom(uint64_t bytes) const {
  MutexLock lock(space_mutex_);
  return space_.free_bytes() >= bytes;
}

Status PayloadStore::Sync() {
  syncs_.Add();
  Status status = sync_.Sync();
  if (!status.ok() && options_.health != nullptr) {
    options_.health->Raise(
        Trouble::kSyncFailed,
        std::string(Message(status)) + "; nothing more is written until the server is restarted");
  }
  return status;
}

Status PayloadStore::SyncDirty() {
  std::set<VolumeFile*> dirty;
  {
    MutexLock lock(dirty_mutex_);
    dirty.swap(dirty_);
  }
  for (const VolumeFile* volume : dirty) {
    device_syncs_.Add();
    if (const int error = engine_->Sync(volume->fd()); error != 0) {
      device_errors_.Add();
      return FromErrno(error, "sync " + volume->path());
    }
  }
  // Check all volumes: a put that finds synced data acknowledges it again.
  for (const VolumeFile* volume : volumes_->All()) QUIRE_RETURN_IF_ERROR(volume->CheckIntact());
  return OkStatus();
}

void PayloadStore::Read(const ReadGuard& /*guard*/, std::span<ReadRequest> requests,
                        const ReadDone& done) {
  ReadBatch batch(*volumes_, buffers_, requests, [&](ReadRequest& request) {
    if (request.status.ok()) read_bytes_.Add(request.destination.size());
    if (options_.reads != nullptr) TellOfRead(request.status, options_.reads);
    done(request);
  });
  engine_->Run(batch);
  device_reads_.Add(batch.totals().reads);
  device_read_bytes_.Add(batch.totals().bytes);
  device_errors_.Add(batch.totals().errors);
  buffered_reads_.Add(batch.totals().buffered);
}

Status PayloadStore::Read(const ReadGuard& guard, std::span<ReadRequest> requests) {
  Read(guard, requests, [](ReadRequest&) {});
  for (const ReadRequest& request : requests) QUIRE_RETURN_IF_ERROR(request.status);
  return OkStatus();
}

void PayloadStore::Release(const Location& location) {
  Reach(options_.faults, FaultPoint::kReleasing);
  FreeSpace(epochs_.Retire(Present(location)));
}

void PayloadStore::LeaveEpoch(ReadEpochs::Epoch epoch) {
  if (const auto unread = epochs_.Leave(epoch); !unread.empty()) FreeSpace(unread);
}

void PayloadStore::VisitMetrics(MetricsVisitor& visit) const {
  visit.Counter("payload_read_bytes", "Payload that was asked for from the volumes.",
                read_bytes_.Get());
  visit.Counter("payload_device_reads", "Reads of the device.", device_reads_.Get());
  visit.Counter("payload_device_read_bytes", "Bytes read from the device.",
                device_read_bytes_.Get());
  visit.Counter("payload_buffered_reads",
                "Reads that went through a buffer because they were not aligned.",
                buffered_reads_.Get());
  visit.Counter("payload_write_bytes", "Payload written to the volumes.", write_bytes_.Get());
  visit.Counter("payload_device_writes", "Writes to the device.", device_writes_.Get());
  visit.Counter("payload_device_write_bytes", "Bytes written to the device.",
                device_write_bytes_.Get());
  visit.Counter("payload_syncs", "Syncs of the volumes that were asked for.", syncs_.Get());
  visit.Counter("payload_device_syncs", "Volumes synced.", device_syncs_.Get());
  visit.Counter("payload_device_errors", "Reads, writes and syncs that the device failed.",
                device_errors_.Get());
  visit.Counter("payload_allocation_failures", "Writes that found no space.",
                allocation_failures_.Get());
  visit.Counter("payload_wrong_releases", "Releases of space that was not in use.",
                wrong_releases_.Get());
  visit.Gauge("payload_waiting_bytes", "Released space that readers still hold.",
              epochs_.waiting_bytes());
  visit.Gauge("payload_volume_bytes", "Size of all payload volumes.", volumes_->total_bytes());
  visit.Gauge("payload_buffer_bytes", "Memory of read buffers, lent and idle.",
              buffers_.lent_bytes() + buffers_.idle_bytes());
  MutexLock lock(space_mutex_);
  visit.Gauge("payload_used_bytes", "Space of the volumes in use.", space_.used_bytes());
  visit.Gauge("payload_free_bytes", "Space of the volumes that is free.", space_.free_bytes());
  visit.Gauge("payload_free_runs", "Pieces that the free space of the volumes is in.",
              space_.free_runs());
}

}  // namespace quire::kvserver
