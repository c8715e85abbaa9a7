// SPDX-License-Identifier: Apache-2.0
//
// RawUcxSides: the two ends of a UCX connection within this process, internal to raw_ucx.
// RawUcxWindow: the operations of one end in flight. Thread-safety: none; one thread at a time uses
// a side.
#ifndef QUIRE_BENCH_RIVALS_RAW_UCX_SIDES_H_
#define QUIRE_BENCH_RIVALS_RAW_UCX_SIDES_H_

#include <ucp/api/ucp.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "common/base/status.h"
#include "transport/ucx/ucx.h"
#include "transport/ucx/ucx_context.h"
#include "transport/ucx/ucx_operation.h"

namespace quire::bench {

struct RawUcxSide {
  struct WorkerCloser {
    void operator()(ucp_worker_h worker) const { ucp_worker_destroy(worker); }
  };
  std::shared_ptr<UcxContext> context;
  std::unique_ptr<UcxOperations> operations = std::make_unique<UcxOperations>();
  std::unique_ptr<ucp_worker, WorkerCloser> worker;
  ucp_ep_h endpoint = nullptr;

  /// Drives UCX; returns true if it made progress.
  bool Progress() const { return ucp_worker_progress(worker.get()) != 0; }
};

struct RawUcxSides {
  RawUcxSide sender;
  RawUcxSide receiver;

  /// Connects over the loopback address.
  static StatusOr<RawUcxSides> Connect(const UcxOptions& options);
};

/// Operations in flight. Wait until none is left before destroying it.
class RawUcxWindow {
 public:
  explicit RawUcxWindow(RawUcxSide& side) : side_(side) {}

  /// Starts an operation. `start(&param)` calls UCX and returns its request. `ended` is called when
  /// the operation has ended.
  template <typename Start>
  void Begin(Start start, std::function<void()> ended = nullptr) {
    ++under_way_;
    side_.operations->Begin(
        [this, ended = std::move(ended)](ucs_status_t status) {
          --under_way_;
          if (ended) ended();
          if (status != UCS_OK) status_ = status;
        },
        start);
  }
  uint32_t under_way() const { return under_way_; }
  ucs_status_t status() const { return status_; }  ///< The last status other than UCS_OK.

 private:
  RawUcxSide& side_;
  uint32_t under_way_ = 0;
  ucs_status_t status_ = UCS_OK;
};

}  // namespace quire::bench

#endif  // QUIRE_BENCH_RIVALS_RAW_UCX_SIDES_H_
