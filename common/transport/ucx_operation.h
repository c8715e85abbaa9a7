// SPDX-License-Identifier: Apache-2.0
//
// UcxBegin: begins an operation of UCX and tells when it ended. Thread-safety: of the worker's
// thread alone.
#ifndef QUIRE_COMMON_TRANSPORT_UCX_OPERATION_H_
#define QUIRE_COMMON_TRANSPORT_UCX_OPERATION_H_

#include <ucp/api/ucp.h>

#include <functional>
#include <memory>
#include <utility>

namespace quire {

using UcxDone = std::function<void(ucs_status_t)>;

/// `start(&param)` calls UCX and returns its request; it may add to `param` before. `done` is
/// called exactly once, inside this call when the operation ended at once.
template <typename Start>
void UcxBegin(UcxDone done, Start start) {
  auto waiting = std::make_unique<UcxDone>(std::move(done));
  ucp_request_param_t param = {};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.send = [](void* request, ucs_status_t status, void* arg) {
    const std::unique_ptr<UcxDone> ended(static_cast<UcxDone*>(arg));
    ucp_request_free(request);
    (*ended)(status);
  };
  param.user_data = waiting.get();
  void* const request = start(&param);
  if (request == nullptr || UCS_PTR_IS_ERR(request)) {
    (*waiting)(UCS_PTR_RAW_STATUS(request));
  } else {
    (void)waiting.release();  // The callback has it.
  }
}

}  // namespace quire

#endif  // QUIRE_COMMON_TRANSPORT_UCX_OPERATION_H_
