// SPDX-License-Identifier: Apache-2.0
//
// Page tokens of listings: the last key of a page, in hexadecimal. Pure functions.
#ifndef QUIRE_KVSERVER_REGISTRY_LISTING_PAGE_TOKEN_H_
#define QUIRE_KVSERVER_REGISTRY_LISTING_PAGE_TOKEN_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "quire/status.h"

namespace quire::kvserver {

[[nodiscard]] std::string EncodePageToken(std::string_view key);
/// Returns the key after which a listing of `prefix` continues; empty for no token.
/// INVALID_ARGUMENT for a malformed token or one of another listing.
[[nodiscard]] StatusOr<std::string> DecodePageToken(std::string_view token,
                                                    std::string_view prefix);

/// Returns 1..1000 unchanged and 100 for 0. INVALID_ARGUMENT above.
[[nodiscard]] StatusOr<uint32_t> CheckPageSize(uint32_t page_size);

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_REGISTRY_LISTING_PAGE_TOKEN_H_
