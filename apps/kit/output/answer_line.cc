// SPDX-License-Identifier: Apache-2.0
#include "apps/kit/output/answer_line.h"

#include <algorithm>

namespace quire::cli {

void AnswerLine::Add(std::string_view piece) {
  if (ended_) return;
  const size_t end = keeps_lines_ ? std::string_view::npos : piece.find('\n');
  ended_ = end != std::string_view::npos;
  piece = piece.substr(0, end);
  if (text_.empty()) piece.remove_prefix(std::min(piece.find_first_not_of(' '), piece.size()));
  text_ += piece;
  if (live_ != nullptr) *live_ << piece << std::flush;
}

}  // namespace quire::cli
