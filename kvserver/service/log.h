// SPDX-License-Identifier: Apache-2.0
//
// Log lines of the daemon on standard error, one event a line:
//   2026-01-31T12:00:00.123456Z info listening address=127.0.0.1:7410 data_dir=/var/lib/quire
// Thread-safety: lines of concurrent calls do not mix.
#ifndef QUIRE_KVSERVER_SERVICE_LOG_H_
#define QUIRE_KVSERVER_SERVICE_LOG_H_

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace quire::kvserver {

using LogFields = std::initializer_list<std::pair<std::string_view, std::string>>;

/// The line for an event at `unix_micros`, without its end. Values with spaces, quotes or control
/// characters are quoted.
std::string LogLine(int64_t unix_micros, std::string_view level, std::string_view event,
                    LogFields fields);

/// Writes a line at level info, or warning, now.
void LogInfo(std::string_view event, LogFields fields);
void LogWarning(std::string_view event, LogFields fields);

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SERVICE_LOG_H_
