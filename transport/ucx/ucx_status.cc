// SPDX-License-Identifier: Apache-2.0
#include "transport/ucx/ucx_status.h"

namespace quire {
namespace {

StatusCode CodeOf(ucs_status_t status) {
  switch (status) {
    case UCS_ERR_INVALID_PARAM:
    case UCS_ERR_INVALID_ADDR:
      return StatusCode::kInvalidArgument;
    case UCS_ERR_UNSUPPORTED:
    case UCS_ERR_NOT_IMPLEMENTED:
      return StatusCode::kUnimplemented;
    case UCS_ERR_NO_MEMORY:
    case UCS_ERR_NO_RESOURCE:
    case UCS_ERR_EXCEEDS_LIMIT:
      return StatusCode::kResourceExhausted;
    default:
      return StatusCode::kUnavailable;
  }
}

}  // namespace

Status UcxToStatus(ucs_status_t status, std::string_view doing) {
  if (status == UCS_OK) return OkStatus();
  return MakeStatus(CodeOf(status), "cannot ", doing, ": UCX says: ", ucs_status_string(status));
}

}  // namespace quire
