// SPDX-License-Identifier: Apache-2.0
//
// ReadSmallFile: reads a configuration file in one go. Thread-safety: pure but for the file.
#ifndef QUIRE_COMMON_BASE_SMALL_FILE_H_
#define QUIRE_COMMON_BASE_SMALL_FILE_H_

#include <cstddef>
#include <string>

#include "common/base/status.h"

namespace quire {

struct SmallFile {
  std::string text;
  bool read_by_everybody = false;  ///< A regular file that users outside its group may read.
};

/// Reads all of the file, or of the pipe, at `path`. Errors name the path: NOT_FOUND when it cannot
/// be opened, INVALID_ARGUMENT for a directory or more than `max_bytes`, UNAVAILABLE when reading
/// fails.
[[nodiscard]] StatusOr<SmallFile> ReadSmallFile(const std::string& path, size_t max_bytes);

}  // namespace quire

#endif  // QUIRE_COMMON_BASE_SMALL_FILE_H_
