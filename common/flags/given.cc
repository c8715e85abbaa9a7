// SPDX-License-Identifier: Apache-2.0
#include "common/flags/given.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>

#include "common/base/utf8.h"

namespace quire {
namespace {

bool IsBlank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

/// True for "0", "0.0", "0s", "0MiB".
bool IsZero(std::string_view text) {
  const size_t number = std::min(text.find_first_not_of("0."), text.size());
  if (text.substr(0, number).find('0') == std::string_view::npos) return false;
  return std::ranges::all_of(text.substr(number), [](unsigned char c) { return std::isalpha(c); });
}

/// INVALID_ARGUMENT when the value of `option` is blank, or the zero that `refused` reports. OK
/// otherwise, even for other errors.
Status CheckOption(const CLI::Option& option, const CLI::ParseError* refused) {
  const std::string name = option.get_name();
  const std::string_view why = refused != nullptr ? refused->what() : "";
  const bool names_option = why.find(name) != std::string_view::npos;
  // CLI11 cuts the unit off a size before it refuses it.
  const bool was_unit = names_option && why.find("unit not recognized") != std::string_view::npos;
  if (!was_unit && std::ranges::any_of(option.results(), IsBlank)) {
    return InvalidArgument(
        name, " is empty; give it what it is for, or leave it away: ", option.get_description());
  }
  const bool zero = names_option && std::ranges::any_of(option.results(), IsZero);
  return zero ? InvalidArgument(why) : OkStatus();
}

}  // namespace

Status CheckGiven(const CLI::App& app, const OptionSet& may_be_empty,
                  const CLI::ParseError* refused) {
  for (const CLI::Option* const option : app.get_options()) {
    if (option->empty() || may_be_empty.contains(option)) continue;
    QUIRE_RETURN_IF_ERROR(CheckOption(*option, refused));
  }
  for (const CLI::App* const command : app.get_subcommands()) {
    QUIRE_RETURN_IF_ERROR(CheckGiven(*command, may_be_empty, refused));
  }
  return OkStatus();
}

Status CheckIsText(std::string_view what, std::string_view text) {
  const std::optional<size_t> wrong = FirstInvalidUtf8(text);
  if (!wrong) return OkStatus();
  return InvalidArgument(what, " is not UTF-8 at byte ", *wrong,
                         "; is the terminal's encoding UTF-8?");
}

}  // namespace quire
