// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/repair/scrubber.h"

#include <chrono>
#include <optional>
#include <string>
#include <utility>

namespace quire::kvserver {
namespace {

/// Findings of one round that are reported one by one.
constexpr uint64_t kMostTold = 16;

void Add(const ScrubCounts& step, ScrubCounts* total) {
  total->bytes += step.bytes;
  total->checked += step.checked;
  total->damaged += step.damaged;
  total->mended += step.mended;
  total->skipped += step.skipped;
  total->errors += step.errors;
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
  const TimePoint end = options_.clock->Now() + duration;
  for (Duration left = duration; left > Duration::zero() && !stopping_;
       left = end - options_.clock->Now()) {
    (void)stop_.WaitFor(mutex_, left);  // The loop checks the clock.
  }
  return stopping_;
}

void Scrubber::Loop() {
  Duration wait = ScrubPace::kFirstRoundAfter;
  while (!WaitOrStop(wait)) {
    const TimePoint started = options_.clock->Now();
    (void)RunRound();  // Counted and reported; the next round retries.
    wait = ScrubPace::AfterRound(started, options_.clock->Now());
  }
}

Status Scrubber::RunRound() {
  const TimePoint started = options_.clock->Now();
  ScrubRound round{work_->kind(), {}};
  const StatusOr<bool> whole = Run(&round.counts);
  if (whole.ok() && !*whole) return OkStatus();
  round.took = options_.clock->Now() - started;
  round.status = whole.status();
  if (whole.ok()) {
    round_ms_.store(static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(round.took).count()));
    rounds_.Add();
  } else {
    errors_.Add();
  }
  if (options_.observer != nullptr) options_.observer->OnRound(round);
  return round.status;
}

StatusOr<bool> Scrubber::Run(ScrubCounts* counts) {
  work_->Begin();
  while (!stopping()) {
    QUIRE_ASSIGN_OR_RETURN(const std::optional<ScrubStep> step, work_->Next());
    if (!step) return true;
    Count(*step, counts);
    if (WaitOrStop(pace_.AfterReading(step->counts.bytes, options_.clock->Now()))) return false;
  }
  return false;
}

void Scrubber::Count(const ScrubStep& step, ScrubCounts* round) {
  bytes_.Add(step.counts.bytes);
  checked_.Add(step.counts.checked);
  damaged_.Add(step.counts.damaged);
  mended_.Add(step.counts.mended);
  skipped_.Add(step.counts.skipped);
  errors_.Add(step.counts.errors);
  const bool tell = !step.found.empty() && round->damaged < kMostTold;
  Add(step.counts, round);
  if (tell && options_.observer != nullptr) options_.observer->OnDamage(kind(), step.found);
}

void Scrubber::VisitMetrics(MetricsVisitor& visit) const {
  const MetricLabels labels = {{"kind", kind()}};
  visit.Counter("scrub_rounds", "Times that everything of a kind was verified.", rounds_.Get(),
                labels);
  visit.Counter("scrub_bytes", "Stored bytes read and verified in the background.", bytes_.Get(),
                labels);
  visit.Counter("scrub_checked", "Units, digests or records verified in the background.",
                checked_.Get(), labels);
  visit.Counter("scrub_damaged",
                "Segments on SSD, extents in DRAM, digests or records found damaged in the "
                "background.",
                damaged_.Get(), labels);
  visit.Counter("scrub_mended", "Of those found damaged, the ones that were whole again at once.",
                mended_.Get(), labels);
  visit.Counter("scrub_skipped",
                "Segments that were being written or deleted when their turn came.", skipped_.Get(),
                labels);
  visit.Counter("scrub_errors", "Background reads that the device or the database failed.",
                errors_.Get(), labels);
  visit.Gauge("scrub_round_ms", "Time of the last whole round of verification.", round_ms_.load(),
              labels);
}

}  // namespace quire::kvserver
