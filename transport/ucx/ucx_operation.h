// SPDX-License-Identifier: Apache-2.0
//
// UcxOperations: the operations of a UCX worker in flight. Thread-safety: for the worker's thread
// only; destroyed after the worker.
#ifndef QUIRE_TRANSPORT_UCX_UCX_OPERATION_H_
#define QUIRE_TRANSPORT_UCX_UCX_OPERATION_H_

#include <ucp/api/ucp.h>

#include <functional>
#include <list>
#include <utility>

namespace quire {

using UcxDone = std::function<void(ucs_status_t)>;

class UcxOperations {
 public:
  UcxOperations() = default;
  UcxOperations(const UcxOperations&) = delete;
  UcxOperations& operator=(const UcxOperations&) = delete;

  /// Starts an operation. `start(&param)` calls UCX and returns its request; it may add to `param`.
  /// `done` is called once, inside this call if the operation ended at once. UCX never ends some
  /// operations: without detection of dead peers, those that only the peer could end. They are
  /// dropped with the worker, without a call of `done`. UCX may read what `done` owns until then.
  /// Returns the request for Forget; null when `done` was called.
  template <typename Start>
  void* Begin(UcxDone done, Start start) {
    const auto begun = begun_.insert(begun_.end(), {std::move(done), this, {}});
    begun->place = begun;
    ucp_request_param_t param = {};
    param.cb.send = [](void* ended, ucs_status_t status, void* arg) {
      ucp_request_free(ended);
      static_cast<Begun*>(arg)->End(status);
    };
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    param.user_data = &*begun;
    void* const request = start(&param);
    if (request != nullptr && !UCS_PTR_IS_ERR(request)) return request;
    begun->End(UCS_PTR_RAW_STATUS(request));
    return nullptr;
  }
  /// Drops the call of `done`. Call it before ending the worker while an endpoint is closing.
  /// Otherwise UCX believes that the request is waited for, and ends the process.
  static void Forget(void* request) { ucp_request_free(request); }

 private:
  struct Begun {
    UcxDone done;
    UcxOperations* all;
    std::list<Begun>::iterator place;

    void End(ucs_status_t status) {
      const UcxDone ended = std::move(done);
      all->begun_.erase(place);
      ended(status);
    }
  };

  std::list<Begun> begun_;
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_UCX_UCX_OPERATION_H_
