// SPDX-License-Identifier: Apache-2.0
#include "apps/kit/output/progress.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <sstream>
#include <utility>

#include "apps/kit/output/table.h"

namespace quire::cli {
namespace {

constexpr Duration kQuietTime = std::chrono::seconds(1);
constexpr Duration kTerminalInterval = std::chrono::milliseconds(100);
constexpr Duration kLogInterval = std::chrono::seconds(5);
constexpr uint64_t kBarWidth = 24;
constexpr const char* kEraseLine = "\r\x1b[K";

}  // namespace

ProgressBar::ProgressBar(std::string label, uint64_t total, const Options& options)
    : label_(std::move(label)),
      total_(total),
      out_(options.out != nullptr ? *options.out : std::cerr),
      is_terminal_(options.out != nullptr ? options.is_terminal : isatty(STDERR_FILENO) == 1),
      bytes_(options.bytes),
      clock_(options.clock != nullptr ? *options.clock : SystemClock()),
      start_(clock_.Now()),
      next_(start_ + kQuietTime) {}

void ProgressBar::Advance(uint64_t steps, std::string note) {
  done_ += steps;
  if (!note.empty()) note_ = std::move(note);
  const TimePoint now = clock_.Now();
  if (!finished_ && now >= next_) Show(now);
}

void ProgressBar::Finish() {
  if (finished_) return;
  finished_ = true;
  if (!shown_) return;
  if (is_terminal_) out_ << kEraseLine;
  note_.clear();
  out_ << Line(clock_.Now() - start_) << std::endl;
}

void ProgressBar::Show(TimePoint now) {
  shown_ = true;
  next_ = now + (is_terminal_ ? kTerminalInterval : kLogInterval);
  if (is_terminal_) {
    out_ << kEraseLine << Line(now - start_) << std::flush;
  } else {
    out_ << Line(now - start_) << std::endl;
  }
}

std::string ProgressBar::Amount(uint64_t steps) const {
  return bytes_ ? FormatBytes(steps) : std::to_string(steps);
}

std::string ProgressBar::Pace(Duration elapsed) const {
  const double seconds = std::chrono::duration<double>(elapsed).count();
  if (!bytes_ || done_ == 0 || seconds <= 0) return {};
  const double rate = static_cast<double>(done_) / seconds;
  std::string pace = ", " + FormatBytes(static_cast<uint64_t>(rate)) + "/s";
  if (finished_ || done_ >= total_) return pace;
  const std::chrono::duration<double> left(static_cast<double>(total_ - done_) / rate);
  return pace + ", " + FormatDuration(std::chrono::ceil<std::chrono::seconds>(left)) + " left";
}

std::string ProgressBar::Line(Duration elapsed) const {
  std::ostringstream line;
  line << label_ << ' ';
  if (total_ > 0) {
    const uint64_t done = std::min(done_, total_);
    const uint64_t filled = done * kBarWidth / total_;
    if (is_terminal_) {
      line << '[' << std::string(filled, '#') << std::string(kBarWidth - filled, '.') << "] ";
    }
    line << Amount(done) << '/' << Amount(total_);
  } else {
    line << Amount(done_);
  }
  line << ", " << FormatDuration(elapsed) << Pace(elapsed);
  if (!note_.empty()) line << ", " << note_;
  return line.str();
}

}  // namespace quire::cli
