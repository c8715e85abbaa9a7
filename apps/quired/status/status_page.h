// SPDX-License-Identifier: Apache-2.0
//
// StatusPage: the page that an admin port shows to people. It is one file, compiled into the
// program, with its script and style. Its headers let it load nothing else, run nothing else, and
// stand in no frame. Pure function.
#ifndef QUIRE_APPS_QUIRED_STATUS_STATUS_PAGE_H_
#define QUIRE_APPS_QUIRED_STATUS_STATUS_PAGE_H_

#include "common/metrics/http_request.h"

namespace quire::kvserver {

HttpReply StatusPage();

}  // namespace quire::kvserver

#endif  // QUIRE_APPS_QUIRED_STATUS_STATUS_PAGE_H_
