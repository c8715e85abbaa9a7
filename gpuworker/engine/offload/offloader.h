// SPDX-License-Identifier: Apache-2.0
//
// Offloader: copies complete pages out of a budget cache, layer by layer while the model runs (NHD
// to HND). Once all layers have a page, it goes to an open context in the background
// (page_sender.h). A page is exported and sent exactly once; the open page never.
//
// Thread-safety: one thread calls; sending happens on parts.offload_executor. Ownership: what it is
// given outlives it. The destructor waits for the call in flight.
#ifndef QUIRE_GPUWORKER_ENGINE_OFFLOAD_OFFLOADER_H_
#define QUIRE_GPUWORKER_ENGINE_OFFLOAD_OFFLOADER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "gpuworker/cache/budget_cache.h"
#include "gpuworker/engine/offload/page_exporter.h"
#include "gpuworker/engine/offload/page_sender.h"
#include "gpuworker/engine/offload/page_sink.h"
#include "gpuworker/engine/parts.h"
#include "gpuworker/retrieval/page_observer.h"
#include "quire/clock.h"
#include "quire/key.h"
#include "quire/status.h"

namespace quire::worker {

class Offloader final : public PageSink {
 public:
  /// `observer` is given each completed page; may be null. Time that Flush, Await and Finish wait
  /// is added to `waited`.
  Offloader(const EngineParts& parts, PageObserver* observer, uint64_t context_id, Duration* waited)
      : parts_(parts),
        observer_(observer),
        exporter_(parts),
        sender_(parts, context_id, parts.offload_executor, waited) {}

  /// Every layer exports the same pages before Flush, as they are complete or several at a time.
  Status Export(const BudgetCache& cache, uint32_t layer, PageRange pages) override;
  Status ExportBy(JointWork* work, const BudgetCache& cache, uint32_t layer,
                  PageRange pages) override;
  Status OnLaunched() override;
  Status Await(uint32_t end_page) override { return sender_.Await(end_page); }
  /// Pages exported and not flushed.
  PageRange pending() const { return pending_; }
  /// Has the pending pages, whose token ids are `tokens`, sent. Waits only while as much is on its
  /// way as may be. Returns their payload bytes. The error, with nothing pending as well, when an
  /// earlier page could not be sent.
  StatusOr<uint64_t> Flush(std::span<const TokenId> tokens);
  /// Waits until everything that was flushed is with the server.
  [[nodiscard]] Status Finish() { return sender_.Finish(); }

 private:
  /// A page that a joint launch exports.
  struct JointPage {
    uint32_t layer = 0;
    uint32_t page = 0;
    bool observed = false;
  };
  /// Makes `pages` pending, with buffers.
  Status Expect(uint32_t layer, PageRange pages);

  const EngineParts parts_;
  PageObserver* const observer_;  ///< May be null.
  PageExporter exporter_;
  std::optional<JointPage> joint_page_;
  PageRange pending_;
  uint64_t exported_ = 0;                             ///< Pages, over all layers.
  std::vector<std::shared_ptr<UnitBuffer>> staging_;  ///< [pending pages]
  PageSender sender_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_ENGINE_OFFLOAD_OFFLOADER_H_
