// SPDX-License-Identifier: Apache-2.0
//
// EventLog: what happened to the documents of each tenant, in order, without gaps. Events are
// written in the same batch as the change they tell of. The log has at most 100000 events of a
// tenant, and none older than 7 days but the last one. A reader asks from a position on, so a slow
// one holds nothing up.
//
// Thread-safety: Apply and Trim are called by one thread at a time; all else by any. Ownership:
// metadata and clock outlive the log.
#ifndef QUIRE_KVSERVER_REGISTRY_EVENTS_EVENT_LOG_H_
#define QUIRE_KVSERVER_REGISTRY_EVENTS_EVENT_LOG_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/observe/counters.h"
#include "common/base/threads/mutex.h"
#include "kvserver/store/metadata/metadata_store.h"
#include "quire/clock.h"
#include "quire/document_events.h"
#include "quire/status.h"

namespace quire::kvserver {

/// An event without its position and time.
struct NewEvent {
  std::string tenant;
  DocumentEventKind kind = DocumentEventKind::kRegistered;
  DocumentName document;
  std::string detail = {};
};

class EventLog {
 public:
  static constexpr uint64_t kMostEvents = 100'000;
  static constexpr int64_t kOldestMicros = int64_t{7} * 86'400 * 1'000'000;
  static constexpr uint32_t kMostWaiting = 32;

  EventLog(MetadataStore* metadata, Clock* clock) : metadata_(metadata), clock_(clock) {}

  /// Reads where each tenant's log begins and ends. Called once, before anything else.
  [[nodiscard]] Status Load() QUIRE_EXCLUDES(mutex_);

  /// Applies `batch` with the events, and wakes the watchers. Errors as MetadataStore::Apply;
  /// nothing happened then.
  [[nodiscard]] Status Apply(MetadataBatch batch, std::span<const NewEvent> events)
      QUIRE_EXCLUDES(mutex_);

  struct Query {
    std::string_view tenant;
    uint64_t after = 0;                ///< 0: from the oldest.
    bool from_now = false;             ///< From the end.
    std::string_view collection = {};  ///< Empty: all.
    uint32_t max_events = 100;
  };
  /// OUT_OF_RANGE naming the oldest when an event after `after` was trimmed, or the log has not
  /// reached it.
  [[nodiscard]] StatusOr<DocumentEvents> Read(const Query& query) QUIRE_EXCLUDES(mutex_);
  /// The same, waiting for a first event until `deadline` (SystemClock) or `stop()`.
  /// RESOURCE_EXHAUSTED when kMostWaiting calls wait.
  [[nodiscard]] StatusOr<DocumentEvents> Watch(Query query, TimePoint deadline,
                                               const std::function<bool()>& stop)
      QUIRE_EXCLUDES(mutex_);

  /// Deletes a slice of the events that are too many or too old. Returns how many.
  [[nodiscard]] StatusOr<uint64_t> Trim() QUIRE_EXCLUDES(mutex_);

  uint64_t num_written() const { return written_.Get(); }
  uint32_t num_waiting() const { return waiting_.load(std::memory_order_relaxed); }

 private:
  struct Range {
    uint64_t oldest = 1;  ///< Equal to `next` when the log is empty.
    uint64_t next = 1;
    int64_t oldest_unix_micros = 0;
  };
  Range RangeOf(std::string_view tenant) const QUIRE_EXCLUDES(mutex_);
  /// Deletes from one tenant's log; its new range.
  [[nodiscard]] StatusOr<Range> TrimTenant(const std::string& tenant, Range range);
  bool IsDue(const Range& range) const;

  MetadataStore* const metadata_;
  Clock* const clock_;
  mutable Mutex mutex_;
  CondVar grew_;
  std::map<std::string, Range, std::less<>> ranges_ QUIRE_GUARDED_BY(mutex_);
  std::atomic<uint32_t> waiting_{0};
  Counter written_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_REGISTRY_EVENTS_EVENT_LOG_H_
