// SPDX-License-Identifier: Apache-2.0
//
// The layer table (cmake/Layers.cmake), applied to #include lines. Every target has the
// repository's root as its include path. The check of DEPS at configure time alone would therefore
// miss includes of forbidden layers.
#ifndef QUIRE_TESTS_REPOSITORY_LAYERS_H_
#define QUIRE_TESTS_REPOSITORY_LAYERS_H_

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace quire::repository {

/// For each layer, the other layers that it may include.
using LayerTable = std::map<std::string, std::set<std::string>>;

/// The table in the text of Layers.cmake.
LayerTable ParseLayers(const std::string& cmake);

/// The layer that the text of a CMakeLists.txt sets; "" if none.
std::string LayerSetBy(const std::string& cmake);

/// The layer of files in `folder` of the repository. The nearest CMakeLists.txt that sets one
/// decides, in the folder or above it; "" if none does. Reads files.
std::string LayerOfFolder(const std::string& folder);

/// The path that the line includes with quotes; "" for any other line.
std::string IncludedFile(const std::string& line);

/// The folder of the repository that contains an included path; "" for a path outside it. Generated
/// protobuf headers lie in proto/.
std::string FolderOfInclude(const std::string& include);

/// The error "layer `a` may not see `b`", with the remedy; "" if it may.
std::string Forbidden(const LayerTable& table, const std::string& from, const std::string& to);

/// One row of the table "Layers" in ARCHITECTURE.md: the words in backquotes of its columns.
struct DocumentedRow {
  std::string layer;
  std::string folder;
  std::set<std::string> sees;
  bool sees_everything = false;
};
std::vector<DocumentedRow> ParseDocumentedLayers(const std::vector<std::string>& markdown);

}  // namespace quire::repository

#endif  // QUIRE_TESTS_REPOSITORY_LAYERS_H_
