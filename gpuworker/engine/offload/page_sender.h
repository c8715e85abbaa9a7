// SPDX-License-Identifier: Apache-2.0
//
// PageSender: complete pages on their way to an open context, while the model goes on. They are
// sent in the order in which they were added, one call at a time, each once but for the client's
// own retries.
//
// Bounded: what waits to be sent is as much as kQueuedCalls calls carry, or one batch; then Add
// waits. The first error ends the sending: what waits is dropped, and whatever is asked answers
// that error.
//
// Thread-safety: one thread calls; sending happens on the executor. Ownership: what it is given
// outlives it.
#ifndef QUIRE_GPUWORKER_ENGINE_OFFLOAD_PAGE_SENDER_H_
#define QUIRE_GPUWORKER_ENGINE_OFFLOAD_PAGE_SENDER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/threads/executor.h"
#include "common/base/threads/mutex.h"
#include "common/base/trace/span.h"
#include "gpuworker/cache/cache_layout.h"
#include "gpuworker/engine/offload/unit_buffers.h"
#include "gpuworker/engine/parts.h"
#include "quire/clock.h"
#include "quire/key.h"
#include "quire/status.h"

namespace quire::worker {

class PageSender {
 public:
  static constexpr uint64_t kQueuedCalls = 4;

  /// The first `bytes` of a buffer, which need not have arrived yet.
  struct Units {
    std::shared_ptr<UnitBuffer> buffer;
    uint64_t bytes = 0;
  };
  /// Pages of one call.
  struct Batch {
    PageRange pages;
    std::vector<TokenId> tokens;    ///< Tokens of the pages.
    std::optional<uint32_t> layer;  ///< All layers when unset.
    std::vector<Units> units;       ///< [pages][layers sent][n_kv]
    Span span = {};                 ///< Set by Add: from there until the pages are sent.
    uint64_t bytes() const;
  };

  /// An executor that runs tasks in the caller, or has no room for one, makes Add send before it
  /// returns. Time that the caller waits is added to `waited`, unless that is null.
  PageSender(const EngineParts& parts, uint64_t context_id, Executor* executor,
             Duration* waited = nullptr);
  /// Drops pending pages, and waits for the call in flight.
  ~PageSender();
  PageSender(const PageSender&) = delete;
  PageSender& operator=(const PageSender&) = delete;

  [[nodiscard]] Status Add(Batch batch) QUIRE_EXCLUDES(mutex_);
  /// Waits until the pages before `end_page` of those that were added are sent.
  [[nodiscard]] Status Await(uint32_t end_page) QUIRE_EXCLUDES(mutex_);
  /// Waits until everything is sent.
  [[nodiscard]] Status Finish() QUIRE_EXCLUDES(mutex_) { return Await(UINT32_MAX); }

 private:
  /// True if a page before `end_page` is still to be sent.
  bool IsToSend(uint32_t end_page) const QUIRE_REQUIRES(mutex_);
  bool HasRoomFor(uint64_t bytes) const QUIRE_REQUIRES(mutex_);
  /// Waits for a change.
  void Wait() QUIRE_REQUIRES(mutex_);
  /// Sends until nothing waits.
  void SendAll() QUIRE_EXCLUDES(mutex_);
  /// The next pages to send; nullopt, and SendAll is over, when there are none.
  std::optional<Batch> Next() QUIRE_EXCLUDES(mutex_);
  [[nodiscard]] Status Send(const Batch& batch);
  void Sent(const Batch& batch, const Status& status) QUIRE_EXCLUDES(mutex_);

  const EngineParts parts_;
  const uint64_t context_id_;
  Executor* const executor_;
  Duration* const waited_;  ///< The caller's thread alone uses it.

  Mutex mutex_;
  CondVar changed_;
  std::deque<Batch> waiting_ QUIRE_GUARDED_BY(mutex_);
  uint64_t waiting_bytes_ QUIRE_GUARDED_BY(mutex_) = 0;
  std::optional<PageRange> under_way_ QUIRE_GUARDED_BY(mutex_);  ///< Pages of the call in flight.
  bool sending_ QUIRE_GUARDED_BY(mutex_) = false;                ///< SendAll runs, or will.
  Status failure_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_ENGINE_OFFLOAD_PAGE_SENDER_H_
