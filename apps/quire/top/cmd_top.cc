// SPDX-License-Identifier: Apache-2.0
//
// quire top: what a server does, on a terminal or as lines.
#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "apps/kit/output/json_output.h"
#include "apps/quire/commands.h"
#include "apps/quire/top/terminal.h"
#include "apps/quire/top/top_screen.h"
#include "common/base/threads/mutex.h"
#include "common/base/threads/periodic_task.h"
#include "common/base/threads/stop_signals.h"

namespace quire::cli {
namespace {

/// Longest time of one question to the server, also while it cannot be reached.
constexpr Duration kLongestQuestion = std::chrono::seconds(2);
/// Between two looks at keys, the size and signals.
constexpr Duration kLook = std::chrono::milliseconds(100);
constexpr uint32_t kSlowCalls = 100;

struct TopArgs {
  double interval_seconds = 2;
  std::optional<uint64_t> count;
};

/// Asks a server again and again, whether it answers or not. Thread-safe.
class TopWatch {
 public:
  TopWatch(Client* client, std::string server) : client_(*client) { view_.server = server; }

  /// Asks once.
  void Ask() QUIRE_EXCLUDES(mutex_) {
    StatusOr<TopSample> sample = Sample();
    MutexLock lock(mutex_);
    ++asked_;
    if (!sample.ok()) {
      view_.failure = Message(sample.status());
      last_.reset();  // Rates over the time without answers would mislead.
      changed_.NotifyAll();
      return;
    }
    // After a restart totals begin anew.
    if (last_ && last_->stats.uptime_seconds > sample->stats.uptime_seconds) last_.reset();
    view_.numbers = NumbersOf(last_ ? &*last_ : nullptr, *sample);
    view_.trends.Add(view_.numbers);
    view_.answered = true;
    view_.failure.clear();
    view_.answer_micros = SystemClock().UnixMicros();
    view_.stats = sample->stats;
    view_.slow = sample->slow;
    last_ = *std::move(sample);
    changed_.NotifyAll();
  }
  /// Waits for an answer after number `asked`, or a failure, for `time` at most. Returns the view
  /// and its number.
  std::pair<TopView, uint64_t> After(uint64_t asked, Duration time) QUIRE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (asked_ == asked) (void)changed_.WaitFor(mutex_, time);
    TopView view = view_;
    view.now_micros = SystemClock().UnixMicros();
    return {std::move(view), asked_};
  }

 private:
  StatusOr<TopSample> Sample() const {
    QUIRE_ASSIGN_OR_RETURN(ServerStats stats, client_.Stats());
    const TimePoint at = SystemClock().Now();
    QUIRE_ASSIGN_OR_RETURN(auto slow, client_.SlowCalls(kSlowCalls));
    return TopSample{.at = at, .stats = std::move(stats), .slow = std::move(slow)};
  }

  Client& client_;
  Mutex mutex_;
  CondVar changed_;
  uint64_t asked_ QUIRE_GUARDED_BY(mutex_) = 0;
  TopView view_ QUIRE_GUARDED_BY(mutex_);
  std::optional<TopSample> last_ QUIRE_GUARDED_BY(mutex_);
};

using IsOver = std::function<bool()>;

/// A line for each answer. A failure is told once, on stderr. UNAVAILABLE when time is over before
/// as many answers as were asked for.
Status PrintLines(const TopArgs& args, TopWatch& watch, const IsOver& is_over,
                  const CommandContext& context) {
  if (!context.options.json) context.out << TopTitles() << std::endl;
  uint64_t seen = 0, printed = 0;
  std::string told;
  while (!args.count || printed < *args.count) {
    if (is_over()) return told.empty() ? OkStatus() : Unavailable(told);
    const auto [view, asked] = watch.After(seen, kLook);
    if (asked == seen) continue;
    seen = asked;
    if (view.failure != told) {
      context.err << (view.failure.empty() ? "the server answers again" : view.failure)
                  << std::endl;
    }
    told = view.failure;
    if (!told.empty()) continue;
    ++printed;
    if (context.options.json) {
      PrintJsonLine(context.out, TopJson(view));
    } else {
      context.out << TopRow(view) << std::endl;
    }
    if (!context.out.good()) return OkStatus();  // Its reader has gone.
  }
  return OkStatus();
}

void DrawScreens(TopWatch& watch, const IsOver& is_over, std::ostream& out) {
  Terminal terminal(out);
  TopView held;
  bool paused = false;
  while (!is_over()) {
    auto [view, asked] = watch.After(0, kLook);
    if (!paused) held = std::move(view);
    held.paused = paused;
    const Terminal::Size size = terminal.size();
    terminal.Show(DrawTop(held, size.width, size.height));
    const std::optional<char> key = terminal.Key(kLook);
    if (key == 'q') return;
    if (key == 'p') paused = !paused;
  }
}

Status RunTop(const TopArgs& args, const CommandContext& context) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<StopSignals> stop, StopSignals::Install());
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client,
                         context.ConnectToWatch(kLongestQuestion));
  TopWatch watch(client.get(), context.options.server);
  const PeriodicTask asking(
      std::chrono::duration_cast<Duration>(std::chrono::duration<double>(args.interval_seconds)),
      [&watch] { watch.Ask(); });
  const bool lines = !context.out_is_terminal || context.options.json || args.count.has_value();
  const IsOver is_over = [&stop, limit = context.options.limit()] {
    return stop->HasArrived() || SystemClock().Now() >= limit;
  };
  if (lines) return PrintLines(args, watch, is_over, context);
  DrawScreens(watch, is_over, context.out);
  return OkStatus();
}

}  // namespace

void AddTopCommand(Commands& commands) {
  const auto args = std::make_shared<TopArgs>();
  CLI::App& command = commands.Add(
      {.name = "top",
       .summary = "Watch a server: tiers, hits, bytes moved, latencies, slow calls",
       .examples =
           "  quire top                            on a terminal: q ends, p pauses\n"
           "  quire --server 10.0.0.3:7410 top --interval 5\n"
           "  quire top | tee top.log              elsewhere a line for each answer\n"
           "  quire --json top --count 1           with what slow calls waited for\n"
           "A server that does not answer is asked again until it does. The admin port of a\n"
           "server has the same as a page (quired --admin-listen)."},
      args, &RunTop);
  command.add_option("--interval", args->interval_seconds, "Seconds between two questions")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  command.add_option("--count", args->count, "Print so many lines, and end")
      ->check(CLI::PositiveNumber);
}

}  // namespace quire::cli
