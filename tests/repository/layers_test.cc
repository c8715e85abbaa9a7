// SPDX-License-Identifier: Apache-2.0
#include "tests/repository/layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>

#include "tests/repository/source_tree.h"

namespace quire::repository {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

LayerTable Table() { return ParseLayers(ReadText("cmake/Layers.cmake")); }

/// Tests, and headers that only they include, may see more than the code next to them.
bool IsForTests(const std::string& file) {
  return file.ends_with("_test.cc") || file.ends_with("_conformance.h") ||
         file.ends_with("_test_kit.h") || file.find("/testing/") != std::string::npos;
}

TEST(LayersTest, NoFileIncludesWhatItsLayerMayNotSee) {
  const LayerTable table = Table();
  size_t includes = 0;
  for (const char* folder : {"cluster", "common", "transport", "kernels", "kvserver", "client",
                             "gpuworker", "apps", "python"}) {
    for (const std::string& file : FilesUnder(folder, {".h", ".cc", ".cu", ".cuh"})) {
      if (IsForTests(file)) continue;
      const std::string layer =
          LayerOfFolder(std::filesystem::path(file).parent_path().generic_string());
      size_t number = 0;
      for (const std::string& line : ReadLines(file)) {
        ++number;
        const std::string target = FolderOfInclude(IncludedFile(line));
        if (target.empty()) continue;
        ++includes;
        EXPECT_EQ(Forbidden(table, layer, LayerOfFolder(target)), "")
            << file << ":" << number << ": " << line;
      }
    }
  }
  EXPECT_GT(includes, 500u) << "the includes were not recognised";
}

/// "" for a header of the standard library, or of these; otherwise what is wrong.
std::string ForeignInclude(const std::string& line) {
  if (!line.starts_with("#include")) return "";
  const size_t open = line.find_first_of("<\"");
  const std::string name = line.substr(open + 1, line.find_last_of(">\"") - open - 1);
  if (line[open] == '<') return name.find_first_of("./") == std::string::npos ? "" : name;
  return name.starts_with("quire/") && !name.starts_with("quire/v1/") ? "" : name;
}

TEST(LayersTest, PublicHeadersIncludeTheStandardLibraryAndEachOther) {
  const LayerTable table = Table();
  const std::vector<std::string> headers = FilesUnder("include", {".h"});
  EXPECT_GT(headers.size(), 20u);
  for (const std::string& file : headers) {
    const std::string folder = FolderOfInclude(file.substr(std::string("include/").size()));
    ASSERT_NE(folder, "") << file << ": name it as one of the PUBLIC_HEADERS of its library";
    for (const std::string& line : ReadLines(file)) {
      EXPECT_EQ(ForeignInclude(line), "") << file;
      const std::string target = FolderOfInclude(IncludedFile(line));
      if (target.empty()) continue;
      EXPECT_EQ(Forbidden(table, LayerOfFolder(folder), LayerOfFolder(target)), "")
          << file << ": " << line;
    }
  }
}

TEST(LayersTest, ThePythonBindingIncludesPublicHeadersAlone) {
  const std::vector<std::string> files = FilesUnder("python", {".h", ".cc"});
  EXPECT_GT(files.size(), 15u);
  for (const std::string& file : files) {
    for (const std::string& line : ReadLines(file)) {
      const std::string name = IncludedFile(line);
      EXPECT_TRUE(name.empty() || name.starts_with("quire/") || name.starts_with("python/native/"))
          << file << ": " << line;
    }
  }
}

TEST(LayersTest, ArchitectureHasTheSameTable) {
  const LayerTable table = Table();
  std::set<std::string> documented;
  for (const DocumentedRow& row : ParseDocumentedLayers(ReadLines("ARCHITECTURE.md"))) {
    ASSERT_TRUE(table.contains(row.layer)) << row.layer;
    documented.insert(row.layer);
    EXPECT_EQ(LayerOfFolder(row.folder), row.layer) << row.folder;
    if (row.sees_everything) {
      EXPECT_EQ(table.at(row.layer).size(), table.size() - 1) << row.layer;
    } else {
      EXPECT_EQ(row.sees, table.at(row.layer)) << row.layer << ", " << row.folder;
    }
  }
  EXPECT_EQ(documented.size(), table.size()) << "a layer has no row in ARCHITECTURE.md";
}

TEST(LayersTest, SiblingsNeverSeeEachOther) {
  const LayerTable table = Table();
  EXPECT_NE(Forbidden(table, "client", "kvserver_store"), "");
  EXPECT_NE(Forbidden(table, "kvserver_service", "client"), "");
  EXPECT_NE(Forbidden(table, "gpuworker", "kvserver_session"), "");
  EXPECT_NE(Forbidden(table, "kvserver_store", "kvserver_registry"), "");
  EXPECT_NE(Forbidden(table, "common", "proto"), "");
  EXPECT_NE(Forbidden(table, "client", "app"), "");
  EXPECT_NE(Forbidden(table, "app", "bench"), "");
  EXPECT_NE(Forbidden(table, "app", "test"), "");
  EXPECT_NE(Forbidden(table, "client", ""), "");
  EXPECT_EQ(Forbidden(table, "gpuworker", "client"), "");
  EXPECT_EQ(Forbidden(table, "client", "client"), "");
}

TEST(LayersTest, FoldersHaveTheLayerOfTheNearestListThatSetsOne) {
  EXPECT_EQ(LayerOfFolder("common/base"), "common");
  EXPECT_EQ(LayerOfFolder("common/wire"), "transport");
  EXPECT_EQ(LayerOfFolder("kvserver/store/testing"), "kvserver_store");
  EXPECT_EQ(LayerOfFolder("client"), "client");
  EXPECT_EQ(LayerOfFolder("apps/kit"), "app");
  EXPECT_EQ(LayerOfFolder("docs"), "");
}

TEST(LayersTest, ReadsTablesIncludesAndFolders) {
  EXPECT_EQ(ParseLayers("set(QUIRE_SEES_a)\nset(QUIRE_SEES_b  a\n   c)\nset(OTHER x)"),
            (LayerTable{{"a", {}}, {"b", {"a", "c"}}}));
  EXPECT_EQ(LayerSetBy("# set(QUIRE_LAYER no)\nset(QUIRE_LAYER yes)\n"), "yes");
  EXPECT_EQ(IncludedFile("  #  include \"common/base/observe/log.h\"  // why"),
            "common/base/observe/log.h");
  EXPECT_EQ(IncludedFile("// #include \"common/base/observe/log.h\""), "");
  EXPECT_EQ(IncludedFile("#include <vector>"), "");
  EXPECT_EQ(FolderOfInclude("quire/v1/store.pb.h"), "proto");
  EXPECT_EQ(FolderOfInclude("quire/status.h"), "common/base");
  EXPECT_EQ(FolderOfInclude("quire/client.h"), "client");
  EXPECT_EQ(PublicHeadersOf("DEPS a\n  PUBLIC_HEADERS\n    b.h\n    c.h)"),
            (std::vector<std::string>{"b.h", "c.h"}));
  EXPECT_EQ(FolderOfInclude("apps/kit/command.h"), "apps/kit");
  EXPECT_EQ(FolderOfInclude("absl/status/status.h"), "");
  EXPECT_EQ(FolderOfInclude("status.h"), "");
}

TEST(LayersTest, ReadsTheTableOfItsOwnSectionOnly) {
  const auto rows = ParseDocumentedLayers(
      {"## Words", "| `x` | `y` | z | `w` |", "## Layers",
       "| layer | folder | what it is | may see |", "|---|---|---|---|",
       "| `a` | `a/b` | `not` this | `c`, `d` |", "| `e` | `e` | all | everything |", "## Next",
       "| `x` | `y` | z | `w` |"});
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].layer, "a");
  EXPECT_EQ(rows[0].folder, "a/b");
  EXPECT_THAT(rows[0].sees, ElementsAre("c", "d"));
  EXPECT_FALSE(rows[0].sees_everything);
  EXPECT_TRUE(rows[1].sees_everything);
  EXPECT_THAT(rows[1].sees, IsEmpty());
}

}  // namespace
}  // namespace quire::repository
