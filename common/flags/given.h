// SPDX-License-Identifier: Apache-2.0
//
// Checks of option values: blank text, zero, invalid UTF-8. They are the same for every command and
// option. Pure functions.
#ifndef QUIRE_COMMON_FLAGS_GIVEN_H_
#define QUIRE_COMMON_FLAGS_GIVEN_H_

#include <set>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace CLI {
class App;
class Option;
class ParseError;
}  // namespace CLI

namespace quire {

using OptionSet = std::set<const CLI::Option*>;

/// INVALID_ARGUMENT naming the first blank text option of `app` or of the chosen command, or the
/// zero that `refused` reports. `refused` is null when parsing succeeded. Options in `may_be_empty`
/// may be empty.
Status CheckGiven(const CLI::App& app, const OptionSet& may_be_empty,
                  const CLI::ParseError* refused);

/// INVALID_ARGUMENT naming `what` and the offset of the first byte of `text` that is not UTF-8.
Status CheckIsText(std::string_view what, std::string_view text);

}  // namespace quire

#endif  // QUIRE_COMMON_FLAGS_GIVEN_H_
