// SPDX-License-Identifier: Apache-2.0
#include "apps/kit/documents/document_files.h"

#include <fnmatch.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "common/wire/convert.h"

namespace quire::cli {
namespace {

namespace fs = std::filesystem;

constexpr char kSeparator = ':';

std::string NameOf(std::string relative) {
  std::ranges::replace(relative, '/', kSeparator);
  return relative;
}

bool IsHidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

std::string AbsolutePath(const fs::path& path) {
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(path, error);
  return error ? fs::absolute(path).string() : whole.string();
}

class Finder {
 public:
  explicit Finder(const FileChoice& choice) : choice_(choice) {}

  Status Add(const std::string& path) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (!fs::exists(status)) return NotFound(path, " is not there");
    if (fs::is_directory(status)) return AddFolder(path);
    AddFile(path, fs::path(path).filename().string());
    return OkStatus();
  }

  FoundFiles Finish() {
    std::map<std::string, std::vector<size_t>> by_name;
    for (size_t i = 0; i < found_.files.size(); ++i) by_name[found_.files[i].name].push_back(i);
    std::vector<DocumentFile> files;
    for (size_t i = 0; i < found_.files.size(); ++i) {
      const Status status = Check(found_.files[i], i, by_name[found_.files[i].name]);
      if (status.ok()) {
        files.push_back(found_.files[i]);
      } else {
        found_.refused.push_back({found_.files[i].path, status});
      }
    }
    found_.files = std::move(files);
    return std::move(found_);
  }

 private:
  Status Check(const DocumentFile& file, size_t index, const std::vector<size_t>& same_name) const {
    QUIRE_RETURN_IF_ERROR(wire::CheckName(file.name, "its name"));
    if (same_name.size() == 1) return OkStatus();
    const size_t other = same_name.front() == index ? same_name.back() : same_name.front();
    return InvalidArgument("the document name '", file.name, "' is also that of ",
                           found_.files[other].path, "; add them to two collections");
  }
  void AddFile(const fs::path& path, const std::string& relative) {
    std::error_code error;
    const uint64_t bytes = fs::file_size(path, error);
    found_.files.push_back({.path = path.string(),
                            .name = NameOf(relative),
                            .source = AbsolutePath(path),
                            .bytes = error ? 0 : bytes});
  }
  bool IsChosen(const std::string& relative) const {
    if (MatchesAny(choice_.exclude, relative)) return false;
    return choice_.include.empty() || MatchesAny(choice_.include, relative);
  }
  Status AddFolder(const fs::path& folder) {
    std::error_code error;
    std::vector<fs::path> paths;
    for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end;
         it.increment(error)) {
      if (IsHidden(it->path())) {
        it.disable_recursion_pending();
      } else if (it->is_regular_file()) {
        paths.push_back(it->path());
      }
    }
    if (error) return Unavailable("cannot read ", folder.string(), ": ", error.message());
    std::ranges::sort(paths);
    for (const fs::path& path : paths) {
      const std::string relative = path.lexically_relative(folder).string();
      if (IsChosen(relative)) AddFile(path, relative);
    }
    found_.folders.push_back(AbsolutePath(folder));
    return OkStatus();
  }

  const FileChoice& choice_;
  FoundFiles found_;
};

}  // namespace

bool MatchesAny(std::span<const std::string> patterns, const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  return std::ranges::any_of(patterns, [&](const std::string& pattern) {
    return fnmatch(pattern.c_str(), path.c_str(), 0) == 0 ||
           fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
  });
}

StatusOr<FoundFiles> FindDocumentFiles(std::span<const std::string> paths,
                                       const FileChoice& choice) {
  Finder finder(choice);
  for (const std::string& path : paths) QUIRE_RETURN_IF_ERROR(finder.Add(path));
  return finder.Finish();
}

}  // namespace quire::cli
