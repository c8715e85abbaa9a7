// SPDX-License-Identifier: Apache-2.0
#include "apps/kit/duration_flag.h"

#include <CLI/CLI.hpp>

#include "common/base/quantity.h"

namespace quire::cli {
namespace {

uint64_t Parse(const std::string& option, const std::string& text) {
  const auto seconds = ParseSeconds(text);
  if (!seconds.ok()) {
    throw CLI::ValidationError(option, std::string(seconds.status().message()));
  }
  if (seconds->count() == 0) {
    throw CLI::ValidationError(option, "'" + text + "' is nothing: give one second or more");
  }
  return static_cast<uint64_t>(seconds->count());
}

}  // namespace

void AddDurationFlag(CLI::App& command, const std::string& option, const std::string& description,
                     std::optional<uint64_t>* seconds) {
  command
      .add_option_function<std::string>(
          option, [option, seconds](const std::string& text) { *seconds = Parse(option, text); },
          description)
      ->type_name("DURATION");
}

void AddDurationOrNoneFlag(CLI::App& command, const std::string& option,
                           const std::string& description, std::optional<uint64_t>* seconds) {
  command
      .add_option_function<std::string>(
          option,
          [option, seconds](const std::string& text) {
            *seconds = text == "none" ? 0 : Parse(option, text);
          },
          description)
      ->type_name("DURATION|none");
}

std::string FormatTtl(const std::optional<uint64_t>& seconds) {
  if (!seconds) return "none";
  return FormatSeconds(std::chrono::seconds(static_cast<int64_t>(*seconds)));
}

}  // namespace quire::cli
