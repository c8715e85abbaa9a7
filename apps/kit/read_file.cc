// SPDX-License-Identifier: Apache-2.0
#include "apps/kit/read_file.h"

#include <filesystem>
#include <fstream>
#include <iterator>

namespace quire::cli {
namespace {

constexpr uintmax_t kMaxFileBytes = 64u << 20;

}  // namespace

StatusOr<std::string> ReadTextFile(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return InvalidArgument(path, " is a directory; name a file");
  }
  const uintmax_t size = std::filesystem::file_size(path, error);
  if (error) return NotFound("cannot read ", path, ": ", error.message());
  if (size > kMaxFileBytes) return InvalidArgument(path, " is larger than 64 MiB; split it");
  std::ifstream file(path, std::ios::binary);
  if (!file) return NotFound("cannot open ", path, "; check that you may read it");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  if (file.bad() || text.size() != size) return Unavailable("reading ", path, " failed");
  return text;
}

StatusOr<std::string> ReadDocumentFile(const std::string& path) {
  QUIRE_ASSIGN_OR_RETURN(std::string text, ReadTextFile(path));
  if (text.empty()) return InvalidArgument(path, " is empty; name a file with text in it");
  return text;
}

}  // namespace quire::cli
