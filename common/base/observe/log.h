// SPDX-License-Identifier: Apache-2.0
//
// Log lines of the processes that serve, on standard error, one event a line:
//   2026-01-31T12:00:00.123456Z info listening address=127.0.0.1:7410 data_dir=/var/lib/quire
// Thread-safety: lines of concurrent calls do not mix.
#ifndef QUIRE_COMMON_BASE_OBSERVE_LOG_H_
#define QUIRE_COMMON_BASE_OBSERVE_LOG_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/observe/health.h"

namespace quire {

using LogFields = std::initializer_list<std::pair<std::string_view, std::string>>;

/// Returns the line for an event at `unix_micros`, without its line end. Values with spaces, quotes
/// or control characters are quoted.
std::string LogLine(int64_t unix_micros, std::string_view level, std::string_view event,
                    LogFields fields);

/// Writes a line at level info, or warning, now.
void LogInfo(std::string_view event, LogFields fields);
void LogWarning(std::string_view event, LogFields fields);
/// Writes the line of a trouble, under its reason's name (Health::Log).
void LogTrouble(const Health::Line& line);

}  // namespace quire

#endif  // QUIRE_COMMON_BASE_OBSERVE_LOG_H_
