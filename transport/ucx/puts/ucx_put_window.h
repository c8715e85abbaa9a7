// SPDX-License-Identifier: Apache-2.0
//
// UcxPutWindow: writes payloads into landings, slice by slice, with a bounded number of writes in
// flight. Thread-safety: for its worker's thread only.
#ifndef QUIRE_TRANSPORT_UCX_PUTS_UCX_PUT_WINDOW_H_
#define QUIRE_TRANSPORT_UCX_PUTS_UCX_PUT_WINDOW_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>

#include "quire/payload.h"
#include "transport/ucx/puts/ucx_landing.h"
#include "transport/ucx/ucx_endpoint.h"

namespace quire {

class UcxPutWindow : public std::enable_shared_from_this<UcxPutWindow> {
 public:
  /// `endpoint` outlives every call except those of its own callbacks.
  UcxPutWindow(UcxEndpoint* endpoint, uint32_t max_puts)
      : endpoint_(endpoint), max_puts_(max_puts) {}

  /// Writes `slices` at `places`; both must stay valid until `done`, which is called when
  /// everything has arrived or failed. REQUIRES: as many places as slices, all inside.
  void Write(std::shared_ptr<UcxRemoteLanding> landing, std::span<const Slice> slices,
             std::span<const uint64_t> places, UcxDone done);
  /// Stops calling the endpoint, before it closes.
  void Stop();

 private:
  struct Job {
    std::shared_ptr<UcxRemoteLanding> landing;
    std::span<const Slice> slices;
    std::span<const uint64_t> places;
    UcxDone done;
    size_t next = 0;        ///< Next slice to write.
    size_t under_way = 0;   ///< Puts in flight, and the flush.
    bool flushing = false;  ///< True once the flush, the last operation of a job, has begun.
    ucs_status_t status = UCS_OK;
  };
  void Pump();
  void Begin(const std::shared_ptr<Job>& job);
  void End(Job& job, ucs_status_t status);

  UcxEndpoint* endpoint_;
  const uint32_t max_puts_;
  uint32_t puts_ = 0;
  bool pumping_ = false;
  std::deque<std::shared_ptr<Job>> jobs_;  ///< Jobs with slices to write.
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_UCX_PUTS_UCX_PUT_WINDOW_H_
