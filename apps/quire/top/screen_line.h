// SPDX-License-Identifier: Apache-2.0
//
// ScreenLine: one line of a terminal, of pieces in styles. It cuts off what does not fit. Each code
// point takes one column; control characters and bytes that are not UTF-8 become '?', so that text
// from elsewhere steers no terminal. Thread-safety: none.
#ifndef QUIRE_APPS_QUIRE_TOP_SCREEN_LINE_H_
#define QUIRE_APPS_QUIRE_TOP_SCREEN_LINE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace quire::cli {

enum class Style : uint8_t { kPlain, kBold, kDim, kGood, kBad };

class ScreenLine {
 public:
  explicit ScreenLine(size_t width) : width_(width) {}

  ScreenLine& Add(std::string_view text, Style style = Style::kPlain);
  /// Adds blanks up to a column; at least one when the line is there already.
  ScreenLine& To(size_t column);
  /// Adds text that ends before a column.
  ScreenLine& RightTo(size_t column, std::string_view text, Style style = Style::kPlain);
  size_t columns() const { return columns_; }

  /// With escape sequences for the styles.
  const std::string& styled() const { return styled_; }
  /// Without any.
  const std::string& plain() const { return plain_; }

 private:
  const size_t width_;
  size_t columns_ = 0;
  std::string styled_;
  std::string plain_;
};

/// Number of code points of `text`.
size_t ColumnsOf(std::string_view text);

}  // namespace quire::cli

#endif  // QUIRE_APPS_QUIRE_TOP_SCREEN_LINE_H_
