// SPDX-License-Identifier: Apache-2.0
#include "tests/repository/proto_comments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/repository/source_tree.h"

namespace quire::repository {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ProtoCommentsTest, EveryDeclarationOfTheWireHasAComment) {
  size_t declarations = 0;
  for (const std::string& file : FilesUnder("proto/quire", {".proto"})) {
    const std::vector<std::string> lines = ReadLines(file);
    declarations += static_cast<size_t>(std::count_if(lines.begin(), lines.end(), IsDeclaration));
    EXPECT_THAT(Undocumented(file, lines), IsEmpty())
        << "say meaning, units and limits on the line or on the line above";
  }
  EXPECT_GT(declarations, 200u) << "the wire's declarations were not recognised";
}

TEST(ProtoCommentsTest, FindsWhatHasNone) {
  const std::vector<std::string> lines = {
      "syntax = \"proto3\";",
      "import \"quire/v1/types.proto\";",
      "// A message.",
      "message Said {",
      "  uint32 said = 1;  // units",
      "  uint32 bare = 2;",
      "  //",
      "  repeated quire.v1.Said empty_comment = 3 [packed = true];",
      "  map<string, uint32> split =",
      "      4;",
      "  oneof either {",
      "    // This one.",
      "    string above = 5;",
      "  }",
      "}",
      "enum E {  // An enum.",
      "  E_UNSPECIFIED = 0;",
      "  E_BELOW = -1;  // below",
      "}",
      "service S {  // A service.",
      "  rpc Call(Said) returns (stream Said);",
      "}",
  };
  EXPECT_THAT(Undocumented("x.proto", lines),
              ElementsAre("x.proto:6: " + lines[5], "x.proto:8: " + lines[7],
                          "x.proto:9: " + lines[8], "x.proto:11: " + lines[10],
                          "x.proto:17: " + lines[16], "x.proto:21: " + lines[20]));
}

}  // namespace
}  // namespace quire::repository
