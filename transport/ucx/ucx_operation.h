// SPDX-License-Identifier: Apache-2.0
//
// UcxOperations: the operations of a UCX worker that have begun and not ended. Thread-safety: of
// the worker's thread alone; destroyed after the worker.
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

  /// `start(&param)` calls UCX and returns its request; it may add to `param` before. `done` is
  /// called once, inside this call when the operation ended at once. UCX never ends some: where it
  /// does not detect dead peers, what only the peer could end. Those are dropped uncalled with the
  /// worker, until which UCX may read what `done` owns. Answers the request until `done` is called,
  /// for Forget; null when it was.
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
  /// `done` will not be called. Whoever ends the worker while it closes an endpoint does this
  /// before, or UCX takes the request for one that is waited for, and ends the process.
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
