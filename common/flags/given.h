// SPDX-License-Identifier: Apache-2.0
//
// Checks of what people give: values that say nothing, or are no text. They are the same for every
// command and option. Pure functions.
#ifndef QUIRE_COMMON_FLAGS_GIVEN_H_
#define QUIRE_COMMON_FLAGS_GIVEN_H_

#include <set>
#include <string>
#include <string_view>

#include "quire/status.h"

namespace CLI {
class App;
class Option;
class ParseError;
}  // namespace CLI

namespace quire {

using OptionSet = std::set<const CLI::Option*>;

/// INVALID_ARGUMENT naming the first option of `app` or of the command that was named which was
/// given blank text, or a zero that `refused` (may be null: nothing was) is about. Those of
/// `may_be_empty` mean something when they are empty.
Status CheckGiven(const CLI::App& app, const OptionSet& may_be_empty,
                  const CLI::ParseError* refused);

/// INVALID_ARGUMENT naming `what` and the offset of the byte where `text` stops being UTF-8.
Status CheckIsText(std::string_view what, std::string_view text);

}  // namespace quire

#endif  // QUIRE_COMMON_FLAGS_GIVEN_H_
