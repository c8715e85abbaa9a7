// SPDX-License-Identifier: Apache-2.0
//
// Output of `quire top`: a screen of any size, or one line for each sample. Pure functions.
#ifndef QUIRE_APPS_QUIRE_TOP_TOP_SCREEN_H_
#define QUIRE_APPS_QUIRE_TOP_TOP_SCREEN_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "apps/kit/output/json_output.h"
#include "apps/quire/top/screen_line.h"
#include "apps/quire/top/top_numbers.h"
#include "quire/server_stats.h"

namespace quire::cli {

/// Values so far, oldest first; -1 where nothing happened.
struct TopTrends {
  static constexpr size_t kMost = 256;
  std::deque<double> calls, hits, moved, recall;

  void Add(const TopNumbers& numbers);
};

struct TopView {
  std::string server;  ///< Its address.
  bool answered = false;
  ServerStats stats = {};  ///< The last answer.
  std::vector<SlowCall> slow = {};
  TopNumbers numbers = {};
  TopTrends trends = {};
  std::string failure = {};   ///< Why the server does not answer now; empty while it does.
  int64_t answer_micros = 0;  ///< Wall-clock time of the last answer.
  int64_t now_micros = 0;     ///< Wall-clock time.
  bool paused = false;
};

/// At most `height` lines of at most `width` columns.
std::vector<ScreenLine> DrawTop(const TopView& view, size_t width, size_t height);

/// Titles of the columns of TopRow.
std::string TopTitles();
/// The last answer as one line.
std::string TopRow(const TopView& view);
/// The same for programs.
Json TopJson(const TopView& view);

}  // namespace quire::cli

#endif  // QUIRE_APPS_QUIRE_TOP_TOP_SCREEN_H_
