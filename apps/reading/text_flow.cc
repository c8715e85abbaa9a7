// SPDX-License-Identifier: Apache-2.0
#include "apps/reading/text_flow.h"

#include <algorithm>

namespace quire::cli {
namespace {

constexpr std::string_view kSpace = " \t\n\r\f";

}  // namespace

void TextFlow::Flush() {
  if (text_.empty()) {
    // Nothing stands before the first word.
  } else if (breaks_ > 0) {
    text_.append(breaks_, '\n');
  } else {
    text_ += gap_;
  }
  breaks_ = 0;
  gap_.clear();
}

void TextFlow::AddWords(std::string_view text) {
  while (!text.empty()) {
    const size_t word = text.find_first_not_of(kSpace);
    if (word != 0 && gap_.empty()) gap_ = " ";
    if (word == std::string_view::npos) return;
    text.remove_prefix(word);
    const size_t end = std::min(text.find_first_of(kSpace), text.size());
    Flush();
    text_ += text.substr(0, end);
    text.remove_prefix(end);
  }
}

void TextFlow::AddVerbatim(std::string_view text) {
  if (text.empty()) return;
  Flush();
  text_ += text;
}

void TextFlow::Break(size_t lines) { breaks_ = std::max(breaks_, lines); }

void TextFlow::Separate(std::string_view separator) { gap_ = separator; }

std::string TextFlow::Finish() {
  while (text_.ends_with('\n')) text_.pop_back();
  if (!text_.empty()) text_ += '\n';
  return std::exchange(text_, {});
}

}  // namespace quire::cli
