// SPDX-License-Identifier: Apache-2.0
#include "apps/quire/top/terminal.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <string>

namespace quire::cli {
namespace {

constexpr char kEnter[] = "\x1b[?1049h\x1b[?25l";  // The other screen, without a cursor.
constexpr char kLeave[] = "\x1b[?25h\x1b[?1049l";
constexpr char kHome[] = "\x1b[H";
constexpr char kClearLine[] = "\x1b[K";
constexpr char kClearRest[] = "\x1b[J";
/// Sizes that a terminal may claim.
constexpr size_t kLargest = 1000;

}  // namespace

Terminal::Terminal(std::ostream& out) : out_(out) {
  termios settings = {};
  if (tcgetattr(STDIN_FILENO, &settings) == 0) {
    before_ = settings;
    // Keys come one by one, unseen. Ctrl-C remains a signal.
    settings.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    settings.c_cc[VMIN] = 0;
    settings.c_cc[VTIME] = 0;
    (void)tcsetattr(STDIN_FILENO, TCSANOW, &settings);
  }
  out_ << kEnter << std::flush;
}

Terminal::~Terminal() {
  out_ << kLeave << std::flush;
  if (before_) (void)tcsetattr(STDIN_FILENO, TCSANOW, &*before_);
}

Terminal::Size Terminal::size() {
  winsize told = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &told) != 0 || told.ws_col == 0 || told.ws_row == 0) {
    return {};
  }
  return {std::min<size_t>(told.ws_col, kLargest), std::min<size_t>(told.ws_row, kLargest)};
}

void Terminal::Show(const std::vector<ScreenLine>& lines) {
  std::string frame = kHome;
  for (size_t i = 0; i < lines.size(); ++i) {
    // A line end after the last line would scroll.
    frame.append(i == 0 ? "" : "\r\n").append(lines[i].styled()).append(kClearLine);
  }
  out_ << frame.append(kClearRest) << std::flush;
}

std::optional<char> Terminal::Key(Duration time) {
  const auto millis = std::chrono::ceil<std::chrono::milliseconds>(time).count();
  pollfd keyboard = {.fd = has_keys_ ? STDIN_FILENO : -1, .events = POLLIN, .revents = 0};
  if (poll(&keyboard, 1, static_cast<int>(std::max<int64_t>(millis, 0))) <= 0) return std::nullopt;
  char key = 0;
  if (read(STDIN_FILENO, &key, 1) == 1) return key;
  has_keys_ = before_.has_value() && (keyboard.revents & POLLHUP) == 0;
  return std::nullopt;
}

}  // namespace quire::cli
