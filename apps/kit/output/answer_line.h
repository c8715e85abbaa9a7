// SPDX-License-Identifier: Apache-2.0
//
// AnswerLine: an answer as people see it, which grows as the model generates. Spaces at the
// beginning are left out, and everything from the first line end on unless lines are kept.
// Thread-safety: none.
#ifndef QUIRE_APPS_KIT_OUTPUT_ANSWER_LINE_H_
#define QUIRE_APPS_KIT_OUTPUT_ANSWER_LINE_H_

#include <ostream>
#include <string>
#include <string_view>

namespace quire::cli {

class AnswerLine {
 public:
  /// Shows each piece on `live` as it comes; nothing is shown when it is null.
  explicit AnswerLine(std::ostream* live) : live_(live) {}

  /// Keeps all lines from here on, as in answers of chat models.
  void KeepLines() { keeps_lines_ = true; }
  void Add(std::string_view piece);
  const std::string& text() const { return text_; }

 private:
  std::ostream* const live_;
  std::string text_;
  bool keeps_lines_ = false;
  bool ended_ = false;
};

}  // namespace quire::cli

#endif  // QUIRE_APPS_KIT_OUTPUT_ANSWER_LINE_H_
