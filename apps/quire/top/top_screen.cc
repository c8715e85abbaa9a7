// SPDX-License-Identifier: Apache-2.0
#include "apps/quire/top/top_screen.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <functional>
#include <utility>

#include "apps/kit/output/table.h"

namespace quire::cli {
namespace {

constexpr size_t kBarColumns = 20;
constexpr size_t kMostMethods = 6;
constexpr size_t kMostTenants = 4;

std::string Percent(const std::optional<double>& ratio) {
  if (!ratio) return "-";
  return FormatRatio(100 * *ratio, 1) + " %";
}

std::string Rate(const std::optional<double>& rate) {
  if (!rate) return "-";
  return *rate < 100 ? FormatRatio(*rate, 1)
                     : FormatCount(static_cast<uint64_t>(std::llround(*rate)));
}

std::string BytesRate(const std::optional<double>& rate) {
  if (!rate) return "-";
  return FormatBytes(static_cast<uint64_t>(std::llround(*rate))) + "/s";
}

std::string Time(const std::optional<Duration>& time) { return time ? FormatDuration(*time) : "-"; }

/// "12:03:44" in UTC.
std::string ClockText(int64_t unix_micros) {
  const std::string text = FormatTime(unix_micros);
  return text.size() > 8 ? text.substr(text.size() - 8) : text;
}

std::string Bar(const TopTier& tier) {
  const double share =
      tier.limit == 0 ? 0 : static_cast<double>(tier.used) / static_cast<double>(tier.limit);
  const auto full = static_cast<size_t>(
      std::clamp(std::lround(share * kBarColumns), 0L, static_cast<long>(kBarColumns)));
  std::string bar;
  for (size_t i = 0; i < kBarColumns; ++i) bar += i < full ? "█" : "░";
  return bar;
}

/// The last `columns` values, the highest as a full block; blank where nothing happened.
std::string Sparkline(const std::deque<double>& values, size_t columns) {
  static constexpr std::array<const char*, 8> kBlocks = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const size_t count = std::min(columns, values.size());
  const auto first = values.end() - static_cast<std::ptrdiff_t>(count);
  const double highest = count == 0 ? 0 : *std::max_element(first, values.end());
  std::string line;
  for (auto value = first; value != values.end(); ++value) {
    if (*value < 0) {
      line += " ";
      continue;
    }
    const double share = highest <= 0 ? 0 : *value / highest;
    line += kBlocks[static_cast<size_t>(std::lround(share * 7))];
  }
  return line;
}

/// Collects lines up to a height.
class Screen {
 public:
  Screen(size_t width, size_t height) : width_(width), height_(height) {}

  /// A new line; nobody sees those beyond the height.
  ScreenLine& Line() {
    lines_.emplace_back(width_);
    return lines_.back();
  }
  size_t left() const { return height_ > lines_.size() ? height_ - lines_.size() : 0; }
  size_t width() const { return width_; }
  std::vector<ScreenLine> Take() {
    while (lines_.size() > height_) lines_.pop_back();
    return std::move(lines_);
  }

 private:
  const size_t width_;
  const size_t height_;
  std::vector<ScreenLine> lines_;
};

void DrawHead(const TopView& view, Screen& screen) {
  ScreenLine& head = screen.Line();
  head.Add("quire top", Style::kBold).Add("  " + view.server);
  if (view.answered) {
    head.Add("  " + view.stats.version + "  up " +
                 FormatDuration(std::chrono::seconds(view.stats.uptime_seconds)),
             Style::kDim);
  }
  const size_t troubles = view.stats.degradations.size();
  const bool away = !view.failure.empty();
  const std::string state = away             ? "no answer"
                            : view.paused    ? "paused"
                            : !view.answered ? "asking"
                            : troubles == 0  ? "sound"
                            : troubles == 1  ? "1 trouble"
                                             : std::to_string(troubles) + " troubles";
  const Style style = away || troubles > 0 ? Style::kBad : Style::kGood;
  head.RightTo(screen.width(), state + "  " + ClockText(view.now_micros), style);
  ScreenLine& why = screen.Line();
  if (away) {
    const std::string since = view.answered ? "since " + ClockText(view.answer_micros) + ": " : "";
    why.Add(since + view.failure, Style::kBad);
  } else if (troubles > 0) {
    const Degradation& first = view.stats.degradations.front();
    why.Add(first.reason + ": " + first.detail, Style::kBad);
  }
}

void DrawTier(const std::string& name, const TopTier& tier, const std::string& more,
              Screen& screen) {
  ScreenLine& line = screen.Line();
  line.Add(name, Style::kBold).To(8).Add(Bar(tier)).To(30);
  line.Add(FormatBytes(tier.used) + " of " + FormatBytes(tier.limit));
  line.To(54).Add(more, Style::kDim);
}

void DrawTrend(const std::string& name, const std::string& now, const std::string& more,
               const std::deque<double>& trend, Screen& screen) {
  ScreenLine& line = screen.Line();
  line.Add(name, Style::kBold).To(8).Add(now).To(30).Add(more, Style::kDim).To(58);
  if (screen.width() > line.columns()) line.Add(Sparkline(trend, screen.width() - line.columns()));
}

void DrawGauges(const TopView& view, Screen& screen) {
  const TopNumbers& n = view.numbers;
  DrawTier("DRAM", n.dram, FormatBytes(n.pinned) + " pinned", screen);
  DrawTier("SSD", n.ssd, FormatBytes(n.cached) + " cached", screen);
  DrawTrend("calls", Rate(n.calls_per_second) + "/s",
            std::to_string(n.running) + " run, " + std::to_string(n.waiting) + " wait, " +
                FormatCount(n.refused) + " refused",
            view.trends.calls, screen);
  DrawTrend("hits", Percent(n.hit_ratio), Percent(n.hit_ratio_in_all) + " in all", view.trends.hits,
            screen);
  DrawTrend("moved", Percent(n.moved_ratio),
            BytesRate(n.moved_per_second) + " of " + BytesRate(n.asked_per_second),
            view.trends.moved, screen);
  DrawTrend("recall", "p50 " + Time(n.recall_median), "p99 " + Time(n.recall_ninety_nine),
            view.trends.recall, screen);
  ScreenLine& line = screen.Line();
  line.Add("state", Style::kBold).To(8);
  line.Add(std::to_string(n.sessions) + " sessions, " + std::to_string(n.contexts) + " contexts");
  line.To(34).Add("scrubbed " + FormatBytes(n.scrubbed_bytes), Style::kDim);
  line.Add(", ", Style::kDim);
  line.Add(FormatCount(n.scrub_damaged) + " damaged",
           n.scrub_damaged > 0 ? Style::kBad : Style::kDim);
  line.Add(", " + FormatCount(n.repaired) + " repaired", Style::kDim);
}

void DrawTenants(const TopNumbers& numbers, size_t most, Screen& screen) {
  if (most < 2) return;
  ScreenLine& titles = screen.Line();
  titles.Add("TENANT", Style::kDim)
      .RightTo(34, "DRAM", Style::kDim)
      .RightTo(46, "SSD", Style::kDim);
  titles.RightTo(57, "SESSIONS", Style::kDim).RightTo(67, "WAITING", Style::kDim);
  titles.RightTo(78, "REFUSED", Style::kDim);
  for (const TopTenant& tenant : numbers.tenants) {
    if (--most == 0) return;
    ScreenLine& line = screen.Line();
    line.Add(tenant.name).RightTo(34, FormatBytes(tenant.dram_bytes));
    line.RightTo(46, FormatBytes(tenant.ssd_bytes)).RightTo(57, FormatCount(tenant.sessions));
    line.RightTo(67, FormatCount(tenant.waiting));
    line.RightTo(78, FormatCount(tenant.refused), tenant.refused > 0 ? Style::kBad : Style::kPlain);
  }
}

void DrawMethods(const TopNumbers& numbers, size_t most, Screen& screen) {
  if (most < 2) return;
  ScreenLine& titles = screen.Line();
  titles.Add("METHOD", Style::kDim).RightTo(40, "CALLS", Style::kDim);
  titles.RightTo(50, "PER S", Style::kDim).RightTo(62, "P50", Style::kDim);
  titles.RightTo(74, "P99", Style::kDim);
  for (const TopMethod& method : numbers.methods) {
    if (--most == 0) return;
    ScreenLine& line = screen.Line();
    line.Add(method.name).RightTo(40, FormatCount(method.calls));
    line.RightTo(50, Rate(method.per_second)).RightTo(62, FormatDuration(method.median));
    line.RightTo(74, FormatDuration(method.ninety_nine));
  }
}

/// "SSD 12 ms, queue 3 ms": what took most, down to a hundredth.
std::string WaitsOf(const SlowCall& call) {
  std::array<std::pair<Duration, std::string_view>, 6> waits = {{{call.queue, "queue"},
                                                                 {call.gate, "SSD gate"},
                                                                 {call.dram, "DRAM"},
                                                                 {call.ssd, "SSD"},
                                                                 {call.selection, "selection"},
                                                                 {call.network, "network"}}};
  std::ranges::stable_sort(waits, std::greater<>(), &std::pair<Duration, std::string_view>::first);
  std::string text;
  for (const auto& [time, name] : waits) {
    if (time <= Duration{0} || time * 100 < call.time) break;
    text.append(text.empty() ? "" : ", ").append(name).append(" ").append(FormatDuration(time));
  }
  return text.empty() ? "the server itself" : text;
}

void DrawSlow(const TopView& view, size_t most, Screen& screen) {
  if (most < 2) return;
  ScreenLine& titles = screen.Line();
  titles.Add("SLOW CALL OF THE LAST HOUR", Style::kDim).RightTo(40, "TOOK", Style::kDim);
  titles.To(42).Add("WAITED FOR", Style::kDim);
  if (view.slow.empty()) screen.Line().Add("none yet", Style::kDim);
  for (const SlowCall& call : view.slow) {
    if (--most == 0) return;
    ScreenLine& line = screen.Line();
    line.Add(ClockText(call.ended_unix_micros), Style::kDim).To(9);
    line.Add(std::string_view(call.method).substr(call.method.find_last_of('.') + 1));
    line.RightTo(40, FormatDuration(call.time), Style::kBold).To(42);
    if (call.code != StatusCode::kOk) line.Add(Name(call.code) + " ", Style::kBad);
    line.Add(WaitsOf(call));
  }
}

Json OrNull(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }
Json OrNull(const std::optional<Duration>& value) {
  return value ? Json(value->count()) : Json(nullptr);
}

}  // namespace

void TopTrends::Add(const TopNumbers& numbers) {
  const auto add = [](std::deque<double>& trend, const std::optional<double>& value) {
    trend.push_back(value.value_or(-1));
    if (trend.size() > kMost) trend.pop_front();
  };
  add(calls, numbers.calls_per_second);
  add(hits, numbers.hit_ratio);
  add(moved, numbers.moved_ratio);
  std::optional<double> seconds;
  if (numbers.recall_ninety_nine) {
    seconds = std::chrono::duration<double>(*numbers.recall_ninety_nine).count();
  }
  add(recall, seconds);
}

std::vector<ScreenLine> DrawTop(const TopView& view, size_t width, size_t height) {
  Screen screen(width, height);
  DrawHead(view, screen);
  if (view.answered) {
    DrawGauges(view, screen);
    (void)screen.Line();
    // The last line is for the keys; slow calls take what the others leave.
    const size_t left = screen.left() > 0 ? screen.left() - 1 : 0;
    const size_t tenants = std::min({view.numbers.tenants.size(), kMostTenants, left / 6}) + 1;
    const size_t methods = std::min({view.numbers.methods.size(), kMostMethods, left / 4}) + 1;
    if (left > tenants + methods) {
      DrawTenants(view.numbers, tenants, screen);
      DrawMethods(view.numbers, methods, screen);
    }
    if (screen.left() > 1) DrawSlow(view, screen.left() - 1, screen);
  }
  while (screen.left() > 1) (void)screen.Line();
  screen.Line().Add("q", Style::kBold).Add(" end   ").Add("p", Style::kBold).Add(" pause");
  return screen.Take();
}

std::string TopTitles() {
  ScreenLine line(200);
  line.Add("TIME").RightTo(17, "CALLS/S").RightTo(26, "HITS").RightTo(35, "MOVED");
  line.RightTo(48, "ASKED FOR").RightTo(61, "MOVED").RightTo(71, "P50").RightTo(81, "P99");
  line.RightTo(86, "RUN").RightTo(91, "WAIT").RightTo(100, "SESSIONS").RightTo(109, "DRAM");
  line.RightTo(118, "SSD").To(120).Add("STATE");
  return line.plain();
}

std::string TopRow(const TopView& view) {
  const TopNumbers& n = view.numbers;
  const auto share = [](const TopTier& tier) {
    return tier.limit == 0
               ? std::nullopt
               : std::optional(static_cast<double>(tier.used) / static_cast<double>(tier.limit));
  };
  ScreenLine line(200);
  line.Add(ClockText(view.now_micros)).RightTo(17, Rate(n.calls_per_second));
  line.RightTo(26, Percent(n.hit_ratio)).RightTo(35, Percent(n.moved_ratio));
  line.RightTo(48, BytesRate(n.asked_per_second)).RightTo(61, BytesRate(n.moved_per_second));
  line.RightTo(71, Time(n.recall_median)).RightTo(81, Time(n.recall_ninety_nine));
  line.RightTo(86, std::to_string(n.running)).RightTo(91, std::to_string(n.waiting));
  line.RightTo(100, std::to_string(n.sessions)).RightTo(109, Percent(share(n.dram)));
  line.RightTo(118, Percent(share(n.ssd))).To(120);
  line.Add(view.stats.degradations.empty() ? "sound" : view.stats.degradations.front().reason);
  return line.plain();
}

Json TopJson(const TopView& view) {
  const TopNumbers& n = view.numbers;
  Json json;
  json["unix_micros"] = view.now_micros;
  json["uptime_seconds"] = view.stats.uptime_seconds;
  json["calls_per_second"] = OrNull(n.calls_per_second);
  json["failed_per_second"] = OrNull(n.failed_per_second);
  json["hit_ratio"] = OrNull(n.hit_ratio);
  json["moved_ratio"] = OrNull(n.moved_ratio);
  json["asked_bytes_per_second"] = OrNull(n.asked_per_second);
  json["moved_bytes_per_second"] = OrNull(n.moved_per_second);
  json["recall_p50_nanos"] = OrNull(n.recall_median);
  json["recall_p99_nanos"] = OrNull(n.recall_ninety_nine);
  json["running"] = n.running;
  json["waiting"] = n.waiting;
  json["refused"] = n.refused;
  json["sessions"] = n.sessions;
  json["dram_bytes"] = n.dram.used;
  json["dram_bytes_limit"] = n.dram.limit;
  json["ssd_bytes"] = n.ssd.used;
  json["ssd_bytes_limit"] = n.ssd.limit;
  json["degraded"] = Json::array();
  for (const Degradation& each : view.stats.degradations) json["degraded"].push_back(each.reason);
  json["slow"] = Json::array();
  for (const SlowCall& call : view.slow) {
    json["slow"].push_back({{"method", call.method},
                            {"code", Name(call.code)},
                            {"ended_unix_micros", call.ended_unix_micros},
                            {"nanos", call.time.count()},
                            {"queue_nanos", call.queue.count()},
                            {"gate_nanos", call.gate.count()},
                            {"dram_nanos", call.dram.count()},
                            {"ssd_nanos", call.ssd.count()},
                            {"selection_nanos", call.selection.count()},
                            {"network_nanos", call.network.count()}});
  }
  return json;
}

}  // namespace quire::cli
