// SPDX-License-Identifier: Apache-2.0
#include "apps/kit/documents/document_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "apps/kit/documents/document_query.h"

namespace quire::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Collects the names that `names` is used with, each answered by `answer`.
template <typename Answer>
Status Use(const DocumentNames& names, std::vector<std::string>* used, const Answer& answer) {
  return names.ForEach([&](const DocumentName& name) -> Status {
    used->push_back(FormatName(name));
    return answer(name);
  });
}

TEST(DocumentNamesTest, EachIsUsedInOrder) {
  const DocumentNames names{.texts = {"a.txt@2", "manuals/b.txt"}, .collection = "books"};
  std::vector<std::string> used;
  EXPECT_EQ(Use(names, &used, [](const DocumentName&) { return OkStatus(); }), OkStatus());
  EXPECT_THAT(used, ElementsAre("books/a.txt@2", "manuals/b.txt"));
}

TEST(DocumentNamesTest, NoneIsUsedWhenOneIsNoName) {
  const DocumentNames names{.texts = {"a.txt", "a/b/c"}};
  std::vector<std::string> used;
  EXPECT_TRUE(IsInvalidArgument(Use(names, &used, [](const DocumentName&) { return OkStatus(); })));
  EXPECT_THAT(used, IsEmpty());
}

TEST(DocumentNamesTest, TheFirstErrorEndsTheRunAndNamesTheDocumentAsTyped) {
  const DocumentNames names{.texts = {"a.txt", "b.txt", "c.txt"}};
  std::vector<std::string> used;
  const Status status = Use(names, &used, [](const DocumentName& name) {
    return name.name == "b.txt" ? Unavailable("no server") : OkStatus();
  });
  EXPECT_THAT(std::string(Message(status)), HasSubstr("b.txt"));
  EXPECT_THAT(used, ElementsAre("default/a.txt", "default/b.txt"));
}

TEST(DocumentNamesTest, ANameThatEndsInDigitsIsTriedWhole) {
  const DocumentNames names{.texts = {"report@2026"}};
  std::vector<std::string> used;
  EXPECT_EQ(Use(names, &used,
                [](const DocumentName& name) {
                  return name.version == 0 ? OkStatus() : NotFound("no such version");
                }),
            OkStatus());
  EXPECT_EQ(used.size(), 2u);
}

TEST(DocumentQueryTest, AValueOfAFilterKeepsQuotesAndBackslashes) {
  EXPECT_EQ(FilterValue("plain text"), R"("plain text")");
  EXPECT_EQ(FilterValue(R"(a "b" \c)"), R"("a \"b\" \\c")");
}

}  // namespace
}  // namespace quire::cli
