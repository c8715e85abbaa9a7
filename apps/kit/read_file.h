// SPDX-License-Identifier: Apache-2.0
//
// Reads the text files that people name on the command line.
#ifndef QUIRE_APPS_KIT_READ_FILE_H_
#define QUIRE_APPS_KIT_READ_FILE_H_

#include <string>

#include "common/base/status.h"

namespace quire::cli {

/// The whole file, of at most 64 MiB. Errors name the path: NOT_FOUND when it cannot be opened,
/// INVALID_ARGUMENT when it is a directory or too large, UNAVAILABLE when reading fails.
StatusOr<std::string> ReadTextFile(const std::string& path);

/// The same for a file whose text is to be read by a model: INVALID_ARGUMENT when it has none.
StatusOr<std::string> ReadDocumentFile(const std::string& path);

}  // namespace quire::cli

#endif  // QUIRE_APPS_KIT_READ_FILE_H_
