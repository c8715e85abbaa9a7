// SPDX-License-Identifier: Apache-2.0
#ifndef QUIRE_APPS_QUIRED_STATUS_JSON_REPLY_H_
#define QUIRE_APPS_QUIRED_STATUS_JSON_REPLY_H_

#include "common/metrics/http_request.h"
#include "nlohmann/json.hpp"

namespace quire::kvserver {

/// JsonReply: an answer of JSON that only pages of this server can read. Bytes that are not UTF-8
/// become U+FFFD.
inline HttpReply JsonReply(int code, const nlohmann::json& body) {
  return {.code = code,
          .content_type = "application/json",
          .body = body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace),
          .headers = "Cross-Origin-Resource-Policy: same-origin\r\n"};
}

}  // namespace quire::kvserver

#endif  // QUIRE_APPS_QUIRED_STATUS_JSON_REPLY_H_
