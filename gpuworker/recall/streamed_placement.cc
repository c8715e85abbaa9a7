// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/recall/streamed_placement.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/memory/payload_cutter.h"
#include "common/base/memory/unit_checksums.h"
#include "common/base/threads/mutex.h"
#include "common/page/unit_sizes.h"
#include "quire/layout.h"

namespace quire::worker {

/// The buffers of one placement and who works on them. Thread-safe: buffers are filled in order and
/// only read after that.
class StreamedPlacement::Stream {
 public:
  Stream(Dependencies with, ArrivedUnits arrived)
      : with_(std::move(with)), arrived_(std::move(arrived)), sizes_(SizesOf(with_)) {
    for (size_t first = 0; first < arrived_.placements.size();) {
      const size_t end = EndOfBuffer(first);
      buffers_.push_back({first, end, BytesOf(first, end), {}});
      first = end;
    }
  }
  static UnitSizes SizesOf(const Dependencies& with) {
    return {with.cache->spec(), with.options.part,
            RecalledCodecs(with.options.layout, with.options.part)};
  }

  /// Puts `units` behind those that have come.
  Status Add(const Payload& units) QUIRE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    PayloadCutter cutter(units);
    for (uint64_t left = units.size_bytes(); left > 0;) {
      if (filled_ == buffers_.size()) {
        return DataLoss("layer ", arrived_.layer, ": ", left, " bytes more than the ",
                        arrived_.placements.size(), " units that are placed");
      }
      Buffer& buffer = buffers_[filled_];  // Not read yet.
      const uint64_t room = buffer.bytes - buffer.units.size_bytes();
      const Payload part = cutter.Cut(std::min(left, room));
      buffer.units.Append(part);
      buffer.units.AddLeases(units);
      left -= part.size_bytes();
      if (part.size_bytes() == room) ++filled_;
    }
    changed_.NotifyAll();
    return OkStatus();
  }

  uint32_t layer() const { return arrived_.layer; }
  std::span<const SlotPlacement> placements() const { return arrived_.placements; }

  /// Takes in buffers until there are none, or as many as may be are in work by others; with `stay`
  /// it waits for these.
  void Work(bool stay) QUIRE_EXCLUDES(mutex_) {
    while (const std::optional<size_t> buffer = Take(stay)) Done(TakeIn(buffers_[*buffer]));
  }
  /// The first error, once nothing is in work; DATA_LOSS when units are missing.
  Status Result() QUIRE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    while (in_work_ > 0) changed_.Wait(mutex_);
    if (!status_.ok()) return status_;
    if (filled_ == buffers_.size()) return damage_;
    return DataLoss("layer ", arrived_.layer, ": of ", arrived_.placements.size(),
                    " units only those before unit ", buffers_[filled_].first, " have come");
  }
  std::vector<Mismatch> mismatches() QUIRE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return mismatches_;
  }
  /// No buffer is begun any more.
  void Stop() QUIRE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    next_ = buffers_.size();
  }

 private:
  struct Buffer {
    size_t first = 0;  ///< Its units are [first, end).
    size_t end = 0;
    uint64_t bytes = 0;  ///< Bytes of all of them.
    Payload units;
  };

  uint64_t BytesOf(size_t first, size_t end) const {
    uint64_t bytes = 0;
    for (size_t i = first; i < end; ++i) bytes += sizes_.Of(arrived_.CodecOf(i));
    return bytes;
  }

  size_t EndOfBuffer(size_t first) const {
    const std::vector<SlotPlacement>& all = arrived_.placements;
    if (with_.options.units_per_buffer > 0) {
      return std::min(all.size(), first + with_.options.units_per_buffer);
    }
    const auto other = std::find_if(
        all.begin() + static_cast<ptrdiff_t>(first), all.end(),
        [&](const SlotPlacement& placement) { return placement.head != all[first].head; });
    return static_cast<size_t>(other - all.begin());
  }

  std::optional<size_t> Take(bool stay) QUIRE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    while (status_.ok() && next_ < filled_) {
      if (in_work_ < with_.options.buffers) {
        ++in_work_;
        return next_++;
      }
      if (!stay) return std::nullopt;
      changed_.Wait(mutex_);
    }
    return std::nullopt;
  }

  void Done(Status status) QUIRE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    --in_work_;
    if (status_.ok()) status_ = std::move(status);
    changed_.NotifyAll();
  }

  Status TakeIn(const Buffer& buffer) QUIRE_EXCLUDES(mutex_) {
    if (const std::vector<UnitMismatch> damaged = Verify(buffer); !damaged.empty()) {
      // Units that changed after they came are not the server's to mend.
      if (!buffer.units.IsValid()) return LeaseRanOut();
      for (const auto& [unit, crc32c] : damaged) NoteMismatch({buffer.first + unit, crc32c});
      return OkStatus();  // The buffers after it are looked at, so that all damage is told at once.
    }
    if (with_.on_verified) with_.on_verified(buffer.first, buffer.units);
    const auto placements =
        std::span(arrived_.placements).subspan(buffer.first, buffer.end - buffer.first);
    if (with_.options.layout == RecallLayout::kRows || with_.rewrite) {
      const Payload units = with_.rewrite ? Rewritten(placements, buffer.units) : buffer.units;
      QUIRE_RETURN_IF_ERROR(with_.options.layout == RecallLayout::kUnits
                                ? with_.cache->WriteUnits(arrived_.layer, placements, units)
                                : with_.cache->WriteRows(arrived_.layer, placements, units));
    } else {
      QUIRE_RETURN_IF_ERROR(WriteByCodec(buffer));
    }
    // The lender may have changed what was read since it was verified.
    return buffer.units.IsValid() ? OkStatus() : LeaseRanOut();
  }
  /// Writes the units of a buffer, those of one codec together.
  Status WriteByCodec(const Buffer& buffer) const {
    PayloadCutter cutter(buffer.units);
    for (size_t first = buffer.first; first < buffer.end;) {
      const UnitCodec codec = arrived_.CodecOf(first);
      size_t end = first + 1;
      while (end < buffer.end && arrived_.CodecOf(end) == codec) ++end;
      const auto placements = std::span(arrived_.placements).subspan(first, end - first);
      QUIRE_RETURN_IF_ERROR(with_.cache->WriteUnits(arrived_.layer, placements,
                                                    cutter.Cut(BytesOf(first, end)), codec));
      first = end;
    }
    return OkStatus();
  }
  Status LeaseRanOut() const {
    return DataLoss("layer ", arrived_.layer,
                    ": the units were not in their slots before their lease ran out");
  }

  /// The units that do not match their checksums.
  std::vector<UnitMismatch> Verify(const Buffer& buffer) const {
    const auto checksums =
        std::span(arrived_.checksums).subspan(buffer.first, buffer.end - buffer.first);
    if (arrived_.codecs.empty()) return FindMismatches(buffer.units, sizes_.raw(), checksums);
    std::vector<uint64_t> bytes;
    for (size_t i = buffer.first; i < buffer.end; ++i) bytes.push_back(BytesOf(i, i + 1));
    return FindMismatches(buffer.units, bytes, checksums);
  }

  void NoteMismatch(const Mismatch& mismatch) QUIRE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    mismatches_.push_back(mismatch);
    if (!damage_.ok()) return;
    const SlotPlacement& at = arrived_.placements[mismatch.placement];
    damage_ = DataLoss("layer ", arrived_.layer, ": the unit of page ", at.page, " of KV head ",
                       at.head, " does not match its checksum");
  }

  Payload Rewritten(std::span<const SlotPlacement> placements, const Payload& units) const {
    const uint64_t whole = UnitBytes(with_.cache->spec());
    std::vector<std::byte> bytes(placements.size() * whole);
    PayloadCutter cutter(units);
    for (size_t i = 0; i < placements.size(); ++i) {
      const std::span<std::byte> unit = std::span(bytes).subspan(i * whole, whole);
      cutter.Cut(sizes_.raw()).CopyTo(unit.last(sizes_.raw()).data());
      with_.rewrite(placements[i], unit);
    }
    Payload rewritten;
    rewritten.Append(std::move(bytes));
    return rewritten;
  }

  const Dependencies with_;
  const ArrivedUnits arrived_;
  const UnitSizes sizes_;  ///< Bytes that come of a unit; of a raw one, its end.
  std::vector<Buffer> buffers_;

  Mutex mutex_;
  CondVar changed_;
  size_t filled_ QUIRE_GUARDED_BY(mutex_) = 0;  ///< Number of buffers with all their units.
  size_t next_ QUIRE_GUARDED_BY(mutex_) = 0;    ///< Index of the next buffer to begin.
  uint32_t in_work_ QUIRE_GUARDED_BY(mutex_) = 0;
  Status status_ QUIRE_GUARDED_BY(mutex_);  ///< Error that ended the work.
  Status damage_ QUIRE_GUARDED_BY(mutex_);  ///< Error for the first of mismatches_.
  std::vector<Mismatch> mismatches_ QUIRE_GUARDED_BY(mutex_);
};

StreamedPlacement::StreamedPlacement(const Dependencies& with, std::shared_ptr<Stream> stream)
    : cache_(with.cache), executor_(with.executor), stream_(std::move(stream)) {}

StatusOr<uint64_t> StreamedPlacement::BytesOf(const Dependencies& with,
                                              const ArrivedUnits& arrived) {
  const UnitSizes sizes = Stream::SizesOf(with);
  if (arrived.codecs.empty()) return arrived.placements.size() * sizes.raw();
  if (arrived.codecs.size() != arrived.placements.size()) {
    return DataLoss("layer ", arrived.layer, ": ", arrived.codecs.size(), " codecs for ",
                    arrived.placements.size(), " units");
  }
  uint64_t bytes = 0;
  for (const UnitCodec codec : arrived.codecs) {
    if (sizes.Of(codec) == 0 || (with.rewrite && codec != UnitCodec::kRaw)) {
      return InvalidArgument("layer ", arrived.layer,
                             ": an encoded unit comes where nobody decodes it");
    }
    bytes += sizes.Of(codec);
  }
  return bytes;
}

StatusOr<std::unique_ptr<StreamedPlacement>> StreamedPlacement::Start(const Dependencies& with,
                                                                      ArrivedUnits arrived) {
  if (with.options.part != UnitPart::kWhole && !with.rewrite) {
    return InvalidArgument("layer ", arrived.layer, ": values come, and nobody has the keys");
  }
  QUIRE_ASSIGN_OR_RETURN(const uint64_t bytes, BytesOf(with, arrived));
  if (arrived.units.size_bytes() > bytes || arrived.checksums.size() != arrived.placements.size()) {
    return DataLoss("layer ", arrived.layer, ": ", arrived.units.size_bytes(), " bytes and ",
                    arrived.checksums.size(), " checksums for ", arrived.placements.size(),
                    " units");
  }
  QUIRE_RETURN_IF_ERROR(with.cache->CheckPlacements(arrived.layer, arrived.placements));
  const Payload units = std::exchange(arrived.units, {});
  auto placement = std::unique_ptr<StreamedPlacement>(
      new StreamedPlacement(with, std::make_shared<Stream>(with, std::move(arrived))));
  QUIRE_RETURN_IF_ERROR(placement->Add(units));
  return placement;
}

Status StreamedPlacement::Add(const Payload& units) {
  QUIRE_RETURN_IF_ERROR(stream_->Add(units));
  StartBackgroundWork();
  return OkStatus();
}

void StreamedPlacement::StartBackgroundWork() {
  if (executor_ == nullptr) return;
  // When there is no room for the task, Finish does all of it.
  (void)executor_->Submit([stream = stream_] { stream->Work(/*stay=*/false); });
}

StreamedPlacement::~StreamedPlacement() {
  if (finished_) return;
  stream_->Stop();
  (void)stream_->Result();  // Nothing is in work any more.
  cache_->table(stream_->layer()).EmptySelectable();
}

std::vector<StreamedPlacement::Mismatch> StreamedPlacement::mismatches() const {
  return stream_->mismatches();
}

Status StreamedPlacement::Finish() {
  finished_ = true;
  stream_->Work(/*stay=*/true);
  Status status = stream_->Result();
  if (status.ok()) status = cache_->RecordPlacements(stream_->layer(), stream_->placements());
  if (!status.ok()) cache_->table(stream_->layer()).EmptySelectable();
  return status;
}

}  // namespace quire::worker
