// SPDX-License-Identifier: Apache-2.0
#include "common/base/observe/log.h"

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "quire/clock.h"

namespace quire {
namespace {

std::string Time(int64_t unix_micros) {
  const std::time_t seconds = unix_micros / 1'000'000;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[64];
  const size_t length = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(text + length, sizeof text - length, ".%06dZ",
                static_cast<int>(unix_micros % 1'000'000));
  return text;
}

std::string Quoted(const std::string& value) {
  const auto plain = [](char c) { return c > ' ' && c != '"' && c != '\\' && c != 0x7f; };
  if (!value.empty() && std::all_of(value.begin(), value.end(), plain)) return value;
  std::string out(1, '"');
  for (const char c : value) {
    if (c == '"' || c == '\\') out.push_back('\\');
    out.push_back(static_cast<unsigned char>(c) < ' ' ? ' ' : c);
  }
  out.push_back('"');
  return out;
}

void Write(std::string_view level, std::string_view event, LogFields fields) {
  std::string line = LogLine(SystemClock().UnixMicros(), level, event, fields);
  line.push_back('\n');
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace

std::string LogLine(int64_t unix_micros, std::string_view level, std::string_view event,
                    LogFields fields) {
  std::string line = Time(unix_micros);
  line.append(1, ' ').append(level).append(1, ' ').append(event);
  for (const auto& [name, value] : fields) {
    line.append(1, ' ').append(name).append(1, '=').append(Quoted(value));
  }
  return line;
}

void LogInfo(std::string_view event, LogFields fields) { Write("info", event, fields); }

void LogWarning(std::string_view event, LogFields fields) { Write("warning", event, fields); }

void LogTrouble(const Health::Line& line) {
  const std::string event(Name(line.trouble));
  if (line.is_over) return LogInfo(event, {{"state", "over"}, {"was", line.detail}});
  LogWarning(event, {{"detail", line.detail}, {"left_out", std::to_string(line.left_out)}});
}

}  // namespace quire
