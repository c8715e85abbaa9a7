// SPDX-License-Identifier: Apache-2.0
//
// Tokens of a filter: words, quoted texts, operators and parentheses, each with its position. Pure
// function. It takes untrusted text.
#ifndef QUIRE_KVSERVER_REGISTRY_FILTER_FILTER_TOKEN_H_
#define QUIRE_KVSERVER_REGISTRY_FILTER_FILTER_TOKEN_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "quire/status.h"

namespace quire::kvserver {

struct FilterToken {
  enum class Kind : uint8_t { kWord, kQuoted, kOperator, kOpen, kClose, kEnd };
  Kind kind = Kind::kEnd;
  std::string text = {};  ///< Without quotes and escapes.
  size_t position = 1;    ///< Byte of its start, from 1.
};

/// Every token, then one of kEnd. INVALID_ARGUMENT with the position for an open quote, a '!'
/// without '=', and text over 4096 bytes or outside UTF-8.
[[nodiscard]] StatusOr<std::vector<FilterToken>> TokensOfFilter(std::string_view text);

/// The error at a position of a filter.
template <typename... Parts>
Status FilterError(size_t position, const Parts&... parts) {
  return InvalidArgument("filter, position ", position, ": ", parts...);
}

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_REGISTRY_FILTER_FILTER_TOKEN_H_
