// SPDX-License-Identifier: Apache-2.0
#include "kvserver/registry/events/event_log.h"

#include <algorithm>
#include <utility>

#include "common/base/retry_hint.h"
#include "kvserver/registry/events/event_record.h"
#include "kvserver/registry/rows/document_keys.h"

namespace quire::kvserver {
namespace {

/// Events examined by one read, and deleted by one trim.
constexpr uint32_t kEventSlice = 1000;
/// How often a waiting call looks whether it is still wanted.
constexpr Duration kStopCheck = std::chrono::milliseconds(100);
constexpr Duration kWatchRetry = std::chrono::seconds(1);

}  // namespace

Status EventLog::Load() {
  MutexLock lock(mutex_);
  return ForEachEntry(*metadata_, AllEventsPrefix(),
                      [&](const MetadataEntry& entry) QUIRE_REQUIRES(mutex_) {
                        const auto key = ParseEventKey(entry.key);
                        if (!key) return;
                        const auto [range, first] = ranges_.try_emplace(key->tenant);
                        if (first) {
                          range->second.oldest = key->position;
                          const auto event = DecodeEvent(key->position, entry.value);
                          if (event.ok())
                            range->second.oldest_unix_micros = event->time_unix_micros;
                        }
                        range->second.next = key->position + 1;
                      });
}

EventLog::Range EventLog::RangeOf(std::string_view tenant) const {
  MutexLock lock(mutex_);
  const auto range = ranges_.find(tenant);
  return range == ranges_.end() ? Range() : range->second;
}

Status EventLog::Apply(MetadataBatch batch, std::span<const NewEvent> events) {
  const int64_t now = clock_->UnixMicros();
  std::map<std::string, Range, std::less<>> grown;
  for (const NewEvent& event : events) {
    const auto [range, first] = grown.try_emplace(event.tenant);
    if (first) range->second = RangeOf(event.tenant);
    if (range->second.oldest == range->second.next) range->second.oldest_unix_micros = now;
    const uint64_t position = range->second.next++;
    batch.Put(EventKey(event.tenant, position), EncodeEvent({.position = position,
                                                             .time_unix_micros = now,
                                                             .kind = event.kind,
                                                             .document = event.document,
                                                             .detail = event.detail}));
  }
  QUIRE_RETURN_IF_ERROR(metadata_->Apply(batch));
  written_.Add(events.size());
  {
    MutexLock lock(mutex_);
    for (const auto& [tenant, range] : grown) ranges_.insert_or_assign(tenant, range);
  }
  grew_.NotifyAll();
  return OkStatus();
}

StatusOr<DocumentEvents> EventLog::Read(const Query& query) {
  const Range range = RangeOf(query.tenant);
  DocumentEvents page;
  page.oldest = range.oldest == range.next ? 0 : range.oldest;
  page.position = range.next - 1;
  if (query.from_now) return page;
  if (query.after >= range.next || (query.after != 0 && query.after + 1 < range.oldest)) {
    return MakeStatus(StatusCode::kOutOfRange, "the log of events has ", range.oldest, " to ",
                      range.next - 1, " and position ", query.after,
                      " asks for others; list the documents, then ", "watch from ",
                      range.oldest - 1, " or from now on");
  }
  page.position = std::max(query.after, range.oldest - 1);
  // Bounded by the range, since a batch is seen before its range.
  const auto most =
      static_cast<uint32_t>(std::min<uint64_t>(kEventSlice, range.next - 1 - page.position));
  if (most == 0) return page;
  QUIRE_ASSIGN_OR_RETURN(
      const std::vector<MetadataEntry> entries,
      metadata_->Scan(EventsPrefix(query.tenant), EventKey(query.tenant, page.position), most));
  for (const MetadataEntry& entry : entries) {
    const auto key = ParseEventKey(entry.key);
    if (!key) return DataLoss("the registry holds a malformed key; restore it from a backup");
    QUIRE_ASSIGN_OR_RETURN(DocumentEvent event, DecodeEvent(key->position, entry.value));
    page.position = key->position;
    if (!query.collection.empty() && event.document.collection != query.collection) continue;
    page.events.push_back(std::move(event));
    if (page.events.size() == query.max_events) break;
  }
  return page;
}

StatusOr<DocumentEvents> EventLog::Watch(Query query, TimePoint deadline,
                                         const std::function<bool()>& stop) {
  class Waiting {
   public:
    explicit Waiting(std::atomic<uint32_t>& count) : count_(count), before_(count++) {}
    ~Waiting() { --count_; }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;
    bool fits() const { return before_ < kMostWaiting; }

   private:
    std::atomic<uint32_t>& count_;
    const uint32_t before_;
  };
  QUIRE_ASSIGN_OR_RETURN(DocumentEvents page, Read(query));
  if (!page.events.empty() || SystemClock().Now() >= deadline) return page;
  const Waiting waiting(waiting_);
  if (!waiting.fits()) {
    return WithRetryAfter(ResourceExhausted(kMostWaiting, " calls wait for events already"),
                          kWatchRetry);
  }
  while (!stop()) {
    query.after = page.position;
    query.from_now = false;
    const Duration left = deadline - SystemClock().Now();
    if (left <= Duration::zero()) return page;
    {
      MutexLock lock(mutex_);
      const auto range = ranges_.find(query.tenant);
      if (range == ranges_.end() || range->second.next == page.position + 1) {
        grew_.WaitFor(mutex_, std::min(left, kStopCheck));
      }
    }
    QUIRE_ASSIGN_OR_RETURN(page, Read(query));
    if (!page.events.empty()) return page;
  }
  return page;
}

bool EventLog::IsDue(const Range& range) const {
  const uint64_t count = range.next - range.oldest;
  return count > kMostEvents ||
         (count > 1 && range.oldest_unix_micros < clock_->UnixMicros() - kOldestMicros);
}

StatusOr<uint64_t> EventLog::Trim() {
  std::map<std::string, Range, std::less<>> due;
  {
    MutexLock lock(mutex_);
    for (const auto& [tenant, range] : ranges_) {
      if (IsDue(range)) due.emplace(tenant, range);
    }
  }
  uint64_t trimmed = 0;
  for (const auto& [tenant, range] : due) {
    QUIRE_ASSIGN_OR_RETURN(const Range left, TrimTenant(tenant, range));
    trimmed += left.oldest - range.oldest;
  }
  return trimmed;
}

StatusOr<EventLog::Range> EventLog::TrimTenant(const std::string& tenant, Range range) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<MetadataEntry> entries,
                         metadata_->Scan(EventsPrefix(tenant), "", kEventSlice));
  MetadataBatch batch;
  for (const MetadataEntry& entry : entries) {
    const auto key = ParseEventKey(entry.key);
    if (!key) return DataLoss("the registry holds a malformed key; restore it from a backup");
    const auto event = DecodeEvent(key->position, entry.value);
    range.oldest = key->position;
    if (event.ok()) range.oldest_unix_micros = event->time_unix_micros;
    if (!IsDue(range)) break;
    range.oldest = key->position + 1;
    batch.Delete(entry.key);
  }
  // Readers learn first that the events are gone.
  {
    MutexLock lock(mutex_);
    Range& kept = ranges_[tenant];
    kept.oldest = range.oldest;
    kept.oldest_unix_micros = range.oldest_unix_micros;
  }
  if (!batch.operations.empty()) QUIRE_RETURN_IF_ERROR(metadata_->Apply(batch));
  return range;
}

}  // namespace quire::kvserver
