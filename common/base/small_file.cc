// SPDX-License-Identifier: Apache-2.0
#include "common/base/small_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "common/base/unique_fd.h"

namespace quire {

StatusOr<SmallFile> ReadSmallFile(const std::string& path, size_t max_bytes) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return NotFound("cannot open ", path, ": ", std::strerror(errno));
  struct stat info = {};
  if (fstat(fd.get(), &info) != 0) {
    return Unavailable("cannot look at ", path, ": ", std::strerror(errno));
  }
  if (S_ISDIR(info.st_mode)) return InvalidArgument(path, " is a directory; name a file");
  SmallFile file{.text = {},
                 .read_by_everybody = S_ISREG(info.st_mode) && (info.st_mode & S_IROTH) != 0};
  char buffer[4096];
  for (;;) {
    const ssize_t count = read(fd.get(), buffer, sizeof buffer);
    if (count == 0) return file;
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Unavailable("reading ", path, " failed: ", std::strerror(errno));
    file.text.append(buffer, static_cast<size_t>(count));
    if (file.text.size() > max_bytes) {
      return InvalidArgument(path, " has more than ", max_bytes, " bytes: is it the right file?");
    }
  }
}

}  // namespace quire
