// SPDX-License-Identifier: Apache-2.0
//
// The only conversion of UCX's statuses to ours.
#ifndef QUIRE_TRANSPORT_UCX_UCX_STATUS_H_
#define QUIRE_TRANSPORT_UCX_UCX_STATUS_H_

#include <ucs/type/status.h>

#include <string_view>

#include "common/base/status.h"

namespace quire {

/// OK for UCS_OK. `doing` names the failed action: "connect to 10.0.0.1:7000".
Status UcxToStatus(ucs_status_t status, std::string_view doing);

}  // namespace quire

#endif  // QUIRE_TRANSPORT_UCX_UCX_STATUS_H_
