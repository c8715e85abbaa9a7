// SPDX-License-Identifier: Apache-2.0
//
// Terminal: the terminal of a program that draws whole screens. It takes the alternate screen and
// single keys, and gives back what was there before. Standard output is its screen and standard
// input its keyboard. Thread-safety: none. Ownership: one object per process.
#ifndef QUIRE_APPS_QUIRE_TOP_TERMINAL_H_
#define QUIRE_APPS_QUIRE_TOP_TERMINAL_H_

#include <termios.h>

#include <cstddef>
#include <optional>
#include <ostream>
#include <vector>

#include "apps/quire/top/screen_line.h"
#include "quire/clock.h"

namespace quire::cli {

class Terminal {
 public:
  struct Size {
    size_t width = 80;
    size_t height = 24;
    friend bool operator==(const Size&, const Size&) = default;
  };

  explicit Terminal(std::ostream& out);
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  /// Present size of the terminal on standard output; 80 by 24 when it tells none.
  static Size size();
  /// Shows lines from the top, and clears the rest.
  void Show(const std::vector<ScreenLine>& lines);
  /// Waits for a key. nullopt after `time`, and when a signal comes.
  std::optional<char> Key(Duration time);

 private:
  std::ostream& out_;
  std::optional<termios> before_;  ///< Settings of the keyboard; unset when it is none.
  bool has_keys_ = true;           ///< The keyboard has not ended.
};

}  // namespace quire::cli

#endif  // QUIRE_APPS_QUIRE_TOP_TERMINAL_H_
