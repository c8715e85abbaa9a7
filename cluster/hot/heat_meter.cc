// SPDX-License-Identifier: Apache-2.0
#include "cluster/hot/heat_meter.h"

#include <cmath>

namespace quire::cluster {
namespace {

/// Reads per second at which a document is forgotten.
constexpr double kForgotten = 0.1;

double Seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

void HeatMeter::Add(std::span<const DocumentReads> reads, TimePoint now, Duration window) {
  const bool is_first = !last_;
  const double passed = is_first ? 0 : Seconds(now - *last_);
  if (!is_first && passed <= 0) return;
  last_ = now;
  if (is_first) return;
  const double kept = std::exp(-passed / Seconds(window));
  for (auto& [name, rate] : rates_) rate *= kept;
  for (const DocumentReads& document : reads) {
    rates_[document.name] += (1 - kept) * static_cast<double>(document.reads) / passed;
  }
  std::erase_if(rates_, [](const auto& entry) { return entry.second < kForgotten; });
}

}  // namespace quire::cluster
