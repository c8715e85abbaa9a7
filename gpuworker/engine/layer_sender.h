// SPDX-License-Identifier: Apache-2.0
//
// LayerSender: sends the pages of a document to its open context while the model reads it. The
// units of a layer leave as soon as they exist, and are on their way while the model computes its
// attention and the layers after it.
//
// Bounded: what waits to be sent is at most kQueuedBatches batches; then Export waits. The first
// error ends the sending: what waits is dropped, and Export and Finish answer that error.
//
// Thread-safety: one thread calls; sending happens on the executor, one call after the other, in
// the order of Export. Ownership: what it is given outlives it.
#ifndef QUIRE_GPUWORKER_ENGINE_LAYER_SENDER_H_
#define QUIRE_GPUWORKER_ENGINE_LAYER_SENDER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>

#include "common/base/executor.h"
#include "common/base/mutex.h"
#include "common/base/payload.h"
#include "common/base/status.h"
#include "common/page/key.h"
#include "gpuworker/engine/page_exporter.h"
#include "gpuworker/engine/page_sink.h"
#include "gpuworker/engine/parts.h"

namespace quire::worker {

class LayerSender final : public PageSink {
 public:
  static constexpr size_t kQueuedBatches = 4;

  /// `tokens` are those of the whole document, from page 0 on. An executor that runs tasks in the
  /// caller makes Export send before it returns.
  LayerSender(const EngineParts& parts, uint64_t context_id, std::span<const TokenId> tokens,
              Executor* executor);
  /// Drops what waits, and waits for the call that is under way.
  ~LayerSender() override;
  LayerSender(const LayerSender&) = delete;
  LayerSender& operator=(const LayerSender&) = delete;

  Status Export(const BudgetCache& cache, uint32_t layer, PageRange pages) override;
  /// Waits until everything is sent; returns its payload bytes.
  StatusOr<uint64_t> Finish();

 private:
  /// Pages of one layer: the payload of one call.
  struct Batch {
    uint32_t layer = 0;
    PageRange pages;
    Payload units;
  };
  [[nodiscard]] Status Enqueue(Batch batch) QUIRE_EXCLUDES(mutex_);
  /// Sends until nothing waits.
  void SendAll() QUIRE_EXCLUDES(mutex_);
  /// What is to be sent next; nullopt, and SendAll is over, when there is nothing.
  std::optional<Batch> Next() QUIRE_EXCLUDES(mutex_);
  [[nodiscard]] Status Send(const Batch& batch);
  void Sent(const Batch& batch, Status status) QUIRE_EXCLUDES(mutex_);

  const EngineParts parts_;
  const uint64_t context_id_;
  const std::span<const TokenId> tokens_;
  Executor* const executor_;
  PageExporter exporter_;

  Mutex mutex_;
  CondVar changed_;
  std::deque<Batch> waiting_ QUIRE_GUARDED_BY(mutex_);
  bool sending_ QUIRE_GUARDED_BY(mutex_) = false;  ///< SendAll runs, or will.
  Status failure_ QUIRE_GUARDED_BY(mutex_);
  uint64_t bytes_sent_ QUIRE_GUARDED_BY(mutex_) = 0;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_ENGINE_LAYER_SENDER_H_
