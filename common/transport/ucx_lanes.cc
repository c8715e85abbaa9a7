// SPDX-License-Identifier: Apache-2.0
#include "common/transport/ucx_lanes.h"

#include <cstddef>

namespace quire {
namespace {

/// What UCX calls the device of every lane that is shared memory.
constexpr std::string_view kSharedMemoryDevice = "/memory";

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
    if (!lanes.names.empty()) lanes.names += ' ';
    lanes.names += name;
  }
  return lanes;
}

}  // namespace quire
