// SPDX-License-Identifier: Apache-2.0
//
// HeatMeter: reads per second of each document, as an average over the last `window` or so in which
// older reads count exponentially less. Documents that are hardly read any more are forgotten.
// Thread-safety: none.
#ifndef QUIRE_CLUSTER_HOT_HEAT_METER_H_
#define QUIRE_CLUSTER_HOT_HEAT_METER_H_

#include <map>
#include <optional>
#include <span>

#include "common/documents/document_reads.h"
#include "quire/clock.h"

namespace quire::cluster {

class HeatMeter {
 public:
  /// Takes in the reads between the last call and `now`. Those of the first call are dropped, as
  /// they have no time.
  void Add(std::span<const DocumentReads> reads, TimePoint now, Duration window);
  /// Reads per second, by name.
  const std::map<ReadName, double>& rates() const { return rates_; }

 private:
  std::map<ReadName, double> rates_;
  std::optional<TimePoint> last_;
};

}  // namespace quire::cluster

#endif  // QUIRE_CLUSTER_HOT_HEAT_METER_H_
