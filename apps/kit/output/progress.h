// SPDX-License-Identifier: Apache-2.0
//
// ProgressBar: how far a long piece of work has come, on stderr, so that stdout stays for results.
// Nothing is shown in the first second. On a terminal one line is redrawn at most ten times a
// second; elsewhere (logs, CI) a plain line is written every five seconds. Work that showed
// something ends with a summary line.
// Thread-safety: none; one thread advances it.
//
//   ProgressBar progress("reading documents", files.size());
//   for (...) { ...; progress.Advance(); }
#ifndef QUIRE_APPS_KIT_OUTPUT_PROGRESS_H_
#define QUIRE_APPS_KIT_OUTPUT_PROGRESS_H_

#include <cstdint>
#include <ostream>
#include <string>

#include "quire/clock.h"

namespace quire::cli {

class ProgressBar {
 public:
  struct Options {
    std::ostream* out = nullptr;  ///< Destination; std::cerr when null.
    bool is_terminal =
        false;  ///< True when `out` can be redrawn; asked of stderr when `out` is null.
    Clock* clock = nullptr;  ///< SystemClock() when null.
    bool bytes = false;      ///< Steps are bytes, shown with their rate and the time left.
  };
  /// `total` steps of work; 0 when unknown.
  ProgressBar(std::string label, uint64_t total)
      : ProgressBar(std::move(label), total, Options{}) {}
  ProgressBar(std::string label, uint64_t total, const Options& options);
  ~ProgressBar() { Finish(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// `steps` more are done; `note` says what is at hand (a file name) and stays until the next one.
  void Advance(uint64_t steps = 1, std::string note = {});
  /// Ends the display; later calls do nothing.
  void Finish();

 private:
  void Show(TimePoint now);
  std::string Line(Duration elapsed) const;
  std::string Amount(uint64_t steps) const;
  /// Rate and time left, from what was done in `elapsed`; empty when unknown.
  std::string Pace(Duration elapsed) const;

  const std::string label_;
  const uint64_t total_;
  std::ostream& out_;
  const bool is_terminal_;
  const bool bytes_;
  Clock& clock_;
  const TimePoint start_;
  TimePoint next_;  ///< When something may be shown again.
  uint64_t done_ = 0;
  std::string note_;
  bool shown_ = false;
  bool finished_ = false;
};

}  // namespace quire::cli

#endif  // QUIRE_APPS_KIT_OUTPUT_PROGRESS_H_
