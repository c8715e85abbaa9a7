// SPDX-License-Identifier: Apache-2.0
//
// Options that take a duration as people write it (common/base/quantity.h): "90s", "12h", "7d".
#ifndef QUIRE_APPS_KIT_DURATION_FLAG_H_
#define QUIRE_APPS_KIT_DURATION_FLAG_H_

#include <cstdint>
#include <optional>
#include <string>

namespace CLI {
class App;
}

namespace quire::cli {

/// Adds an option that sets `*seconds`, which outlives `command`, to one second or more.
void AddDurationFlag(CLI::App& command, const std::string& option, const std::string& description,
                     std::optional<uint64_t>* seconds);
/// The same, with "none" setting 0.
void AddDurationOrNoneFlag(CLI::App& command, const std::string& option,
                           const std::string& description, std::optional<uint64_t>* seconds);

/// A time to live for people: "7d", "none" when there is none.
std::string FormatTtl(const std::optional<uint64_t>& seconds);

}  // namespace quire::cli

#endif  // QUIRE_APPS_KIT_DURATION_FLAG_H_
