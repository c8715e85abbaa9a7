// SPDX-License-Identifier: Apache-2.0
//
// Which requests may read what the admin port shows to people. A browser asks for every page that
// it has open, also for pages of others. Those may neither read names nor make a browser believe
// that this server is theirs (DNS rebinding). Thread-safety: pure functions.
#ifndef QUIRE_COMMON_METRICS_SAME_ORIGIN_H_
#define QUIRE_COMMON_METRICS_SAME_ORIGIN_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/metrics/http_request.h"

namespace quire {

/// True for a name by which nobody else can be asked: an IP address, localhost, a name without a
/// dot, or one of `names`. `host` is a Host header, with or without a port.
bool IsOwnName(std::string_view host, std::span<const std::string> names);

/// The answer to a request that a foreign page makes, or that came by a foreign name. nullopt for
/// all others: a person's, a program's, or this server's own page's.
std::optional<HttpReply> RefuseForeign(const HttpRequest& request,
                                       std::span<const std::string> names);

}  // namespace quire

#endif  // QUIRE_COMMON_METRICS_SAME_ORIGIN_H_
