// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/scrubber.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

namespace quire::kvserver {
namespace {

/// Read at once, under the segment's lock; a unit that is larger is read by itself.
constexpr uint64_t kBytesAtOnce = 1 << 20;

bool IsDamage(const Status& status) {
  return status.code() == StatusCode::kDataLoss || status.code() == StatusCode::kNotFound;
}

}  // namespace

Scrubber::~Scrubber() {
  Stop();
  if (thread_.joinable()) thread_.join();
}

void Scrubber::Start() {
  thread_ = std::thread([this] { Loop(); });
}

void Scrubber::Stop() {
  MutexLock lock(mutex_);
  stopping_ = true;
  stop_.NotifyAll();
}

bool Scrubber::stopping() const {
  MutexLock lock(mutex_);
  return stopping_;
}

bool Scrubber::WaitOrStop(Duration duration) {
  MutexLock lock(mutex_);
  const TimePoint end = parts_.clock->Now() + duration;
  for (Duration left = duration; left > Duration::zero() && !stopping_;
       left = end - parts_.clock->Now()) {
    (void)stop_.WaitFor(mutex_, left);  // The loop asks the clock.
  }
  return stopping_;
}

void Scrubber::Loop() {
  Duration wait = ScrubPace::kFirstRoundAfter;
  while (!WaitOrStop(wait)) {
    const TimePoint started = parts_.clock->Now();
    if (!RunRound().ok()) errors_.Add();  // The next round tries again.
    wait = ScrubPace::AfterRound(started, parts_.clock->Now());
  }
}

Status Scrubber::RunRound() {
  const TimePoint started = parts_.clock->Now();
  std::string key;
  std::string value;
  while (!stopping()) {
    QUIRE_ASSIGN_OR_RETURN(const bool found, Next(&key, &value));
    if (!found) {
      const auto took = parts_.clock->Now() - started;
      round_ms_.store(static_cast<uint64_t>(
          std::chrono::duration_cast<std::chrono::milliseconds>(took).count()));
      rounds_.Add();
      return OkStatus();
    }
    ScrubSegment(key, std::move(value));
  }
  return OkStatus();
}

// One row at a time: an iterator that is kept for a round would keep RocksDB from freeing anything.
StatusOr<bool> Scrubber::Next(std::string* cursor, std::string* value) const {
  const std::string start = cursor->empty() ? std::string() : *cursor + '\0';
  bool found = false;
  const auto take_first = [&](std::string_view key, std::string_view row) {
    *cursor = key;
    *value = row;
    found = true;
    return false;
  };
  QUIRE_RETURN_IF_ERROR(parts_.database->Scan(Table::kSegments, start, take_first));
  return found;
}

void Scrubber::ScrubSegment(const std::string& raw_key, std::string value) {
  const auto key = SegmentKey::FromBytes(raw_key);
  if (!key || parts_.catalog->IsDamaged(*key)) return;
  StatusOr<SegmentRecord> record = DecodeSegmentRecord(value);
  if (!record.ok()) {
    if (IsDamage(record.status())) FoundDamage(*key);
    return;
  }
  const Segment segment{*key, std::move(value), *std::move(record)};
  if (segment.record.dram_only) return;
  const uint32_t units = segment.record.units_per_layer();
  const auto at_once = static_cast<uint32_t>(
      std::clamp<uint64_t>(kBytesAtOnce / segment.record.stored_unit_bytes(), 1, units));
  for (uint32_t layer = 0; layer < segment.record.spec.num_layers; ++layer) {
    for (uint32_t first = 0; first < units; first += at_once) {
      const uint32_t count = std::min(at_once, units - first);
      if (ScrubUnits(segment, layer, first, count) == Verdict::kLeaveSegment) return;
      const uint64_t bytes = count * segment.record.stored_unit_bytes();
      if (WaitOrStop(pace_.AfterReading(bytes, parts_.clock->Now()))) return;
    }
  }
}

Scrubber::Verdict Scrubber::ScrubUnits(const Segment& segment, uint32_t layer, uint32_t first,
                                       uint32_t count) {
  const auto guard = parts_.writers->TryAcquire(segment.key);
  if (!guard || !IsSame(segment)) {
    skipped_.Add();
    return Verdict::kLeaveSegment;
  }
  std::vector<SsdTier::UnitRead> reads;
  for (uint32_t unit = first; unit < first + count; ++unit) {
    reads.push_back({.id = {segment.key, layer}, .unit = unit});
  }
  parts_.ssd->ReadUnits(reads);
  const size_t row = size_t{layer} * segment.record.units_per_layer();
  for (const SsdTier::UnitRead& read : reads) {
    units_.Add();
    const bool other =
        read.result.ok() && read.result->crc32c() != segment.record.unit_crc32c[row + read.unit];
    if (other || IsDamage(read.result.status())) {
      FoundDamage(segment.key);
      return Verdict::kLeaveSegment;
    }
    if (read.result.ok()) {
      bytes_.Add(read.result->size_bytes());
    } else {
      errors_.Add();
    }
  }
  return Verdict::kGoOn;
}

bool Scrubber::IsSame(const Segment& segment) const {
  const StatusOr<std::string> now = parts_.database->Get(Table::kSegments, segment.key.view());
  return now.ok() && *now == segment.encoded;
}

void Scrubber::FoundDamage(const SegmentKey& key) {
  parts_.catalog->MarkDamaged(key);
  damaged_.Add();
}

void Scrubber::VisitMetrics(MetricsVisitor& visit) const {
  visit.Counter("scrub_rounds", "Times that everything stored was verified.", rounds_.Get());
  visit.Counter("scrub_bytes", "Stored bytes read and verified in the background.", bytes_.Get());
  visit.Counter("scrub_units", "Units verified in the background.", units_.Get());
  visit.Counter("scrub_damaged", "Segments found damaged in the background.", damaged_.Get());
  visit.Counter("scrub_skipped",
                "Segments that were being written or deleted when their turn came.",
                skipped_.Get());
  visit.Counter("scrub_errors", "Background reads that the device or the database failed.",
                errors_.Get());
  visit.Gauge("scrub_round_ms", "Time of the last whole round of verification.", round_ms_.load());
}

}  // namespace quire::kvserver
