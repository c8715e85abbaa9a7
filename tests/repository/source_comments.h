// SPDX-License-Identifier: Apache-2.0
//
// Rules for comments that can be checked: first words, length of sentences, citations. CONTRIBUTING
// has the rules that only a reader can check. Thread-safety: pure functions.
#ifndef QUIRE_TESTS_REPOSITORY_SOURCE_COMMENTS_H_
#define QUIRE_TESTS_REPOSITORY_SOURCE_COMMENTS_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace quire::repository {

/// Most words of a sentence.
inline constexpr size_t kMostWords = 30;

/// A paragraph, or an item of a list, in a comment.
struct CommentParagraph {
  size_t line = 0;        ///< Number of its first line, from 1.
  bool of_field = false;  ///< Begins with `///<`.
  std::string text = {};  ///< Its lines without markers, joined by spaces.
};

/// Returns the paragraphs of all `//` comments. Leaves out block comments, indented lines (examples
/// and tables), licenses, and directives to tools. Literals are no comments.
std::vector<CommentParagraph> CommentParagraphs(const std::vector<std::string>& lines);

/// Splits a paragraph into sentences.
std::vector<std::string> Sentences(std::string_view paragraph);

/// Returns the broken rules, each as "name:line: rule: sentence":
/// - a sentence begins with a word that leaves it without a subject ("Of", "That", "Who", ...);
/// - a sentence has more than kMostWords words;
/// - a comment cites a section of a specification that is not in the repository;
/// - a field comment begins in lower case.
std::vector<std::string> CommentFaults(std::string_view name,
                                       const std::vector<std::string>& lines);

}  // namespace quire::repository

#endif  // QUIRE_TESTS_REPOSITORY_SOURCE_COMMENTS_H_
