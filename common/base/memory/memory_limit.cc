// SPDX-License-Identifier: Apache-2.0
#include "common/base/memory/memory_limit.h"

#include <unistd.h>

#include <charconv>
#include <fstream>
#include <string_view>

namespace quire {
namespace {

/// Takes the limit in `path` if it is lower. "max" and other text mean no limit.
void TakeLimit(const std::string& path, MemoryLimit* limit) {
  std::ifstream file(path);
  std::string text;
  if (!std::getline(file, text)) return;
  uint64_t bytes = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), bytes);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size()) return;
  if (bytes < limit->bytes) *limit = {bytes, "the limit in " + path};
}

/// Takes the limits of the group `name` ("/a/b") and its parents. In a container the names may be
/// the host's while only the container's own group is mounted, at the root.
void TakeLimits(const std::string& mount, std::string_view name, std::string_view file,
                MemoryLimit* limit) {
  for (std::string group(name);; group.erase(group.rfind('/'))) {
    const std::string_view plain = group == "/" ? std::string_view() : std::string_view(group);
    TakeLimit(mount + std::string(plain) + "/" + std::string(file), limit);
    if (plain.empty()) return;
  }
}

}  // namespace

MemoryLimit ReadMemoryLimit(const std::string& root) {
  MemoryLimit limit{
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)),
      "the memory of this machine"};
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // NUMBER:CONTROLLERS:/NAME
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string name = line.substr(second + 1);
    if (!name.starts_with('/')) continue;
    if (controllers.empty()) {
      TakeLimits(root + "/sys/fs/cgroup", name, "memory.max", &limit);
      TakeLimits(root + "/sys/fs/cgroup/unified", name, "memory.max", &limit);
    } else if (("," + controllers + ",").find(",memory,") != std::string::npos) {
      TakeLimits(root + "/sys/fs/cgroup/memory", name, "memory.limit_in_bytes", &limit);
    }
  }
  return limit;
}

Status CheckWithin(const MemoryLimit& limit, std::string_view option, uint64_t bytes) {
  if (bytes <= limit.bytes) return OkStatus();
  return InvalidArgument(option, " is ", bytes, ", more than ", limit.whose, ", ", limit.bytes,
                         ": lower it, or raise that");
}

}  // namespace quire
