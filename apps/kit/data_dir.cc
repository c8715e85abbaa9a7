// SPDX-License-Identifier: Apache-2.0
#include "apps/kit/data_dir.h"

#include <stdlib.h>

#include <CLI/CLI.hpp>
#include <filesystem>

namespace quire::cli {

StatusOr<std::unique_ptr<DataDir>> DataDir::Make(const std::string& given) {
  if (!given.empty()) return std::unique_ptr<DataDir>(new DataDir(given, /*temporary=*/false));
  std::error_code error;
  std::string pattern = (std::filesystem::temp_directory_path(error) / "quire-XXXXXX").string();
  if (error || mkdtemp(pattern.data()) == nullptr) {
    return Unavailable("cannot create a directory like ", pattern, "; give one with --data-dir");
  }
  return std::unique_ptr<DataDir>(new DataDir(pattern, /*temporary=*/true));
}

DataDir::~DataDir() {
  std::error_code ignored;  // A file that cannot be removed stays there.
  if (temporary_) std::filesystem::remove_all(path_, ignored);
}

void AddDataDirOption(CLI::App& command, std::string* data_dir) {
  command.add_option(
      "--data-dir", *data_dir,
      "Where the embedded server keeps its data (a temporary directory when not given)");
}

}  // namespace quire::cli
