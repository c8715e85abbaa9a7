// SPDX-License-Identifier: Apache-2.0
#include "apps/kit/worker/find_model.h"

#include <filesystem>

namespace quire::cli {
namespace {

namespace fs = std::filesystem;

constexpr char kBundled[] = "models/recall-small";

bool IsModel(const fs::path& directory) {
  std::error_code ignored;  // An unreadable place does not hold the model.
  return fs::exists(directory / "config.json", ignored);
}

}  // namespace

StatusOr<std::string> FindModel(const std::string& given) {
  if (!given.empty()) return given;
  std::error_code error;
  if (IsModel(kBundled)) return std::string(kBundled);
  fs::path place = fs::read_symlink("/proc/self/exe", error);
  while (!error && place.has_relative_path()) {
    place = place.parent_path();
    if (IsModel(place / kBundled)) return (place / kBundled).string();
  }
  return NotFound("no ", kBundled,
                  " here or above the program; name a checkpoint with --model DIR");
}

}  // namespace quire::cli
