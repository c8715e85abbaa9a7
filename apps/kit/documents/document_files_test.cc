// SPDX-License-Identifier: Apache-2.0
#include "apps/kit/documents/document_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/kit/temp_dir.h"

namespace quire::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class DocumentFilesTest : public ::testing::Test {
 protected:
  void Write(const std::string& path) {
    const std::filesystem::path file(dir_ / path);
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << "text";
  }
  FoundFiles Find(const std::vector<std::string>& paths, const FileChoice& choice = {}) {
    auto found = FindDocumentFiles(paths, choice);
    EXPECT_TRUE(found.ok()) << found.status();
    return found.ok() ? *std::move(found) : FoundFiles();
  }
  static std::vector<std::string> Names(const FoundFiles& found) {
    std::vector<std::string> names;
    for (const DocumentFile& file : found.files) names.push_back(file.name);
    return names;
  }

  testing::TempDir dir_;
};

TEST_F(DocumentFilesTest, FilesOfFoldersAreNamedByTheirPaths) {
  for (const char* path : {"b.md", "a/x.txt", "a/b/y.html", ".git/config", "a/.hidden"})
    Write(path);
  const FoundFiles found = Find({dir_.path()});
  EXPECT_THAT(Names(found), ElementsAre("a:b:y.html", "a:x.txt", "b.md"));
  EXPECT_THAT(found.refused, IsEmpty());
  EXPECT_EQ(found.files.front().bytes, 4u);
  EXPECT_EQ(found.files.front().source, std::filesystem::canonical(dir_ / "a/b/y.html"));
  EXPECT_EQ(found.folders.size(), 1u);
  EXPECT_THAT(Names(Find({dir_ / "a/x.txt", dir_ / "b.md"})), ElementsAre("x.txt", "b.md"));
}

TEST_F(DocumentFilesTest, PatternsChooseByPathAndByName) {
  for (const char* path : {"b.md", "a/x.txt", "a/c.md", "drafts/d.md"}) Write(path);
  EXPECT_THAT(Names(Find({dir_.path()}, {.include = {"*.md"}, .exclude = {"drafts/*"}})),
              ElementsAre("a:c.md", "b.md"));
  EXPECT_THAT(Names(Find({dir_.path()}, {.include = {"x.*", "b.md"}})),
              ElementsAre("a:x.txt", "b.md"));
  EXPECT_THAT(Names(Find({dir_ / "b.md"}, {.include = {"*.txt"}})), ElementsAre("b.md"))
      << "files that are named are always chosen";
}

TEST_F(DocumentFilesTest, NamesThatNoDocumentCanHaveAreRefusedByFile) {
  Write("good.txt");
  Write("bad\nname.txt");
  Write("broken\xC3.txt");
  Write("at@3#x");
  const FoundFiles found = Find({dir_.path()});
  EXPECT_THAT(Names(found), ElementsAre("at@3#x", "good.txt"));
  ASSERT_EQ(found.refused.size(), 2u);
  EXPECT_THAT(std::string(Message(found.refused[0].reason)), HasSubstr("control character"));
  EXPECT_THAT(std::string(Message(found.refused[1].reason)), HasSubstr("not UTF-8 at byte 6"));
}

TEST_F(DocumentFilesTest, FilesThatShareANameAreRefused) {
  Write("a/x.txt");
  Write("b/x.txt");
  const FoundFiles found = Find({dir_ / "a", dir_ / "b"});
  EXPECT_THAT(found.files, IsEmpty());
  ASSERT_EQ(found.refused.size(), 2u);
  EXPECT_THAT(std::string(Message(found.refused[0].reason)), HasSubstr("b/x.txt"));
  EXPECT_THAT(std::string(Message(found.refused[1].reason)), HasSubstr("a/x.txt"));
}

TEST_F(DocumentFilesTest, APathThatIsNotThereIsNamed) {
  const std::vector<std::string> paths = {dir_ / "nothing"};
  const auto found = FindDocumentFiles(paths);
  EXPECT_TRUE(IsNotFound(found.status()));
  EXPECT_THAT(std::string(Message(found.status())), HasSubstr("nothing is not there"));
}

}  // namespace
}  // namespace quire::cli
