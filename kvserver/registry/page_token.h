// SPDX-License-Identifier: Apache-2.0
//
// Page tokens of listings: the last key of a page, in hexadecimal. Pure functions.
#ifndef QUIRE_KVSERVER_REGISTRY_PAGE_TOKEN_H_
#define QUIRE_KVSERVER_REGISTRY_PAGE_TOKEN_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "quire/status.h"

namespace quire::kvserver {

[[nodiscard]] std::string EncodePageToken(std::string_view key);
/// The key that a listing of the keys with `prefix` goes on after; none for no token.
/// INVALID_ARGUMENT when the token is of another listing or of none.
[[nodiscard]] StatusOr<std::string> DecodePageToken(std::string_view token,
                                                    std::string_view prefix);

/// 1..1000 as they are, 100 for 0; INVALID_ARGUMENT above.
[[nodiscard]] StatusOr<uint32_t> CheckPageSize(uint32_t page_size);

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_REGISTRY_PAGE_TOKEN_H_
