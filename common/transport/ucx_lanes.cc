// SPDX-License-Identifier: Apache-2.0
#include "common/transport/ucx_lanes.h"

#include <charconv>
#include <cstddef>
#include <optional>
#include <system_error>
#include <utility>

namespace quire {
namespace {

/// What UCX calls the device of every lane that is shared memory.
constexpr std::string_view kSharedMemoryDevice = "/memory";
constexpr std::string_view kTcpTransport = "tcp/";

/// The name in "lane[1]:  2:posix/memory.0 md[2] -> ...", empty for lanes without one.
std::string_view LaneName(std::string_view line) {
  const size_t arrow = line.find("->");
  const size_t slash = line.find('/');
  if (arrow == std::string_view::npos || slash == std::string_view::npos || slash > arrow)
    return {};
  const size_t begin = line.rfind(':', slash);
  const size_t end = line.find_first_of(". ", slash);
  if (begin == std::string_view::npos || end == std::string_view::npos) return {};
  return line.substr(begin + 1, end - begin - 1);
}

/// The peer's domain in "lane[1]: ... -> md[2]/posix/sysdev[255]".
std::optional<std::pair<uint32_t, std::string>> LaneDomain(std::string_view line) {
  constexpr std::string_view kBefore = "-> md[";
  const size_t before = line.find(kBefore);
  if (before == std::string_view::npos) return std::nullopt;
  line.remove_prefix(before + kBefore.size());
  uint32_t number = 0;
  const auto parsed = std::from_chars(line.data(), line.data() + line.size(), number);
  line.remove_prefix(static_cast<size_t>(parsed.ptr - line.data()));
  if (parsed.ec != std::errc() || !line.starts_with("]/")) return std::nullopt;
  line.remove_prefix(2);
  return std::pair(number, std::string(line.substr(0, line.find('/'))));
}

}  // namespace

UcxLanes ParseUcxLanes(std::string_view info) {
  UcxLanes lanes;
  while (!info.empty()) {
    const size_t end = info.find('\n');
    std::string_view line = info.substr(0, end);
    info.remove_prefix(end == std::string_view::npos ? info.size() : end + 1);
    const size_t text = line.find_first_not_of("# ");
    if (text == std::string_view::npos) continue;
    line.remove_prefix(text);
    if (line.starts_with("put[")) lanes.remote_write = true;
    if (!line.starts_with("lane[")) continue;
    const std::string_view name = LaneName(line);
    if (name.empty()) continue;
    lanes.within_host =
        (lanes.names.empty() || lanes.within_host) && name.ends_with(kSharedMemoryDevice);
    lanes.tcp = (lanes.names.empty() || lanes.tcp) && name.starts_with(kTcpTransport);
    if (!lanes.names.empty()) lanes.names += ' ';
    lanes.names += name;
    if (auto domain = LaneDomain(line)) lanes.domains.insert(*std::move(domain));
  }
  return lanes;
}

}  // namespace quire
