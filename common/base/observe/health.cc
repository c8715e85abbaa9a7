// SPDX-License-Identifier: Apache-2.0
#include "common/base/observe/health.h"

#include <utility>

namespace quire {
namespace {

constexpr std::array<std::string_view, kNumTroubles> kNames = {
    "data_damaged",   "records_damaged", "disk_full",      "device_failed",  "device_stalled",
    "sync_failed",    "store_unreached", "read_failed",    "cleanup_failed", "pins_waiting",
    "cluster_frozen", "not_a_member",    "data_torn",      "memory_damaged", "damaged_on_the_way",
    "over_quota",     "call_refused",    "caller_unproven"};
/// Upper bound of a detail; the rest is cut off.
constexpr size_t kMostDetailBytes = 1024;

/// Converts a detail to one line of ASCII for logs, pages and messages. Details may contain text of
/// callers or file names.
std::string Plain(std::string_view detail) {
  std::string text(detail.substr(0, kMostDetailBytes));
  for (char& c : text) {
    if (c == '\n') c = ' ';
    if (c < ' ' || c > '~') c = '?';
  }
  return text;
}

}  // namespace

std::string_view Name(Trouble trouble) { return kNames[static_cast<size_t>(trouble)]; }

void Health::Report(Trouble trouble, std::string_view detail, bool lasts) {
  std::optional<Line> line;
  {
    MutexLock lock(mutex_);
    State& state = Of(trouble);
    state.count.Add();
    if (lasts) {
      if (!state.is_raised) state.since_unix_micros = clock_.UnixMicros();
      state.is_raised = true;
      state.detail = Plain(detail);
    }
    line = NextLine(trouble, /*is_over=*/false, detail);
  }
  if (line && log_) log_(*line);
}

void Health::Clear(Trouble trouble) {
  if (!Of(trouble).is_raised) return;
  std::optional<Line> line;
  {
    MutexLock lock(mutex_);
    State& state = Of(trouble);
    if (!state.is_raised) return;
    state.is_raised = false;
    line = NextLine(trouble, /*is_over=*/true, state.detail);
  }
  if (line && log_) log_(*line);
}

std::optional<Health::Line> Health::NextLine(Trouble trouble, bool is_over,
                                             std::string_view detail) {
  State& state = Of(trouble);
  const TimePoint now = clock_.Now();
  // A trouble whose start had a line gets one for its end.
  const bool may =
      is_over ? state.is_told : !state.last_line || now - *state.last_line >= kLineInterval;
  if (!may) {
    ++state.left_out;
    return std::nullopt;
  }
  if (!is_over) state.last_line = now;
  state.is_told = !is_over;
  return Line{.trouble = trouble,
              .is_over = is_over,
              .detail = Plain(detail),
              .left_out = std::exchange(state.left_out, 0)};
}

bool Health::IsRaised(Trouble trouble) const { return Of(trouble).is_raised; }

std::vector<Health::Degradation> Health::Degradations() const {
  std::vector<Degradation> raised;
  MutexLock lock(mutex_);
  for (size_t i = 0; i < kNumTroubles; ++i) {
    const State& state = states_[i];
    if (!state.is_raised) continue;
    raised.push_back({static_cast<Trouble>(i), state.detail, state.since_unix_micros});
  }
  return raised;
}

void RecurringTrouble::Failed(std::string_view detail) {
  {
    MutexLock lock(mutex_);
    last_failure_ = clock_.Now();
    is_raised_ = true;
  }
  if (health_ != nullptr) health_->Raise(trouble_, detail);
}

void RecurringTrouble::ClearWhenQuiet() {
  {
    MutexLock lock(mutex_);
    if (!is_raised_ || clock_.Now() - last_failure_ < quiet_) return;
    is_raised_ = false;
  }
  if (health_ != nullptr) health_->Clear(trouble_);
}

void Health::VisitMetrics(MetricsVisitor& visit) const {
  for (size_t i = 0; i < kNumTroubles; ++i) {
    visit.Counter("troubles", "What operators have to know of, by reason.", states_[i].count.Get(),
                  {{"reason", kNames[i]}});
    visit.Gauge("degraded", "1 while the server is degraded for this reason.",
                states_[i].is_raised ? 1 : 0, {{"reason", kNames[i]}});
  }
}

}  // namespace quire
