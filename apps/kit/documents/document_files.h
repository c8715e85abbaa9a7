// SPDX-License-Identifier: Apache-2.0
//
// Document files: what the paths of a command line mean, and the name that each file gets as a
// document. Thread-safety: pure but for reading directories.
#ifndef QUIRE_APPS_KIT_DOCUMENTS_DOCUMENT_FILES_H_
#define QUIRE_APPS_KIT_DOCUMENTS_DOCUMENT_FILES_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quire/status.h"

namespace quire::cli {

struct DocumentFile {
  std::string path;    ///< As a person would write it.
  std::string name;    ///< Path below the folder that was named, with ':' for '/'.
  std::string source;  ///< Absolute path.
  uint64_t bytes = 0;
};

struct RefusedFile {
  std::string path;
  Status reason;
};

/// Files of folders, by shell patterns for the path below the folder or for the name alone. '*'
/// also means '/'. Files that a command line names are always chosen.
struct FileChoice {
  std::vector<std::string> include;  ///< Empty: all.
  std::vector<std::string> exclude;
};

struct FoundFiles {
  std::vector<DocumentFile> files;  ///< In order of the paths given, then of names.
  std::vector<RefusedFile> refused;
  std::vector<std::string> folders;  ///< Absolute paths of the folders that were named.
};

/// Files of `paths`, folders with all that is below them. Hidden entries are passed over, and links
/// to folders are not followed. Files whose names no document can have, or that share a name, are
/// refused. NOT_FOUND for a path that is not there, UNAVAILABLE for a folder that cannot be read.
StatusOr<FoundFiles> FindDocumentFiles(std::span<const std::string> paths,
                                       const FileChoice& choice = {});

/// True when one of `patterns` means `path`, relative to its folder.
bool MatchesAny(std::span<const std::string> patterns, const std::string& path);

}  // namespace quire::cli

#endif  // QUIRE_APPS_KIT_DOCUMENTS_DOCUMENT_FILES_H_
