// SPDX-License-Identifier: Apache-2.0
//
// TextFlow: writes words, lines and paragraphs. White space collapses to one space, as browsers do.
// Line breaks wait for the next word, so that none stand at the ends. Thread-safety: none.
#ifndef QUIRE_APPS_READING_TEXT_FLOW_H_
#define QUIRE_APPS_READING_TEXT_FLOW_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace quire::cli {

class TextFlow {
 public:
  /// Adds text whose white space collapses.
  void AddWords(std::string_view text);
  /// Adds text as it is, line ends included.
  void AddVerbatim(std::string_view text);
  /// Puts at least `lines` line ends before the next text: 1 for a new line, 2 for a paragraph.
  void Break(size_t lines);
  /// Puts `separator` between the last text of this line and the next one.
  void Separate(std::string_view separator);

  /// The whole text, ended by one line end unless it is empty.
  std::string Finish();

 private:
  /// Writes what waits: line ends, or else a separator or space.
  void Flush();

  std::string text_;
  size_t breaks_ = 0;
  std::string gap_;  ///< Between words of a line.
};

}  // namespace quire::cli

#endif  // QUIRE_APPS_READING_TEXT_FLOW_H_
