// SPDX-License-Identifier: Apache-2.0
//
// ScrubLog: logs the findings of the background scrub, for the daemon. Thread-safe.
#ifndef QUIRE_APPS_QUIRED_SCRUB_LOG_H_
#define QUIRE_APPS_QUIRED_SCRUB_LOG_H_

#include <chrono>
#include <string>
#include <string_view>

#include "common/base/observe/log.h"
#include "kvserver/store/repair/scrub.h"

namespace quire::kvserver {

class ScrubLog final : public ScrubObserver {
 public:
  void OnDamage(std::string_view kind, const std::string& what) override {
    LogWarning("scrub_damage", {{"kind", std::string(kind)}, {"what", what}});
  }
  void OnRound(const ScrubRound& round) override {
    const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(round.took);
    const ScrubCounts& counts = round.counts;
    if (!round.status.ok()) {
      LogWarning("scrub_failed", {{"kind", std::string(round.kind)},
                                  {"why", std::string(Message(round.status))},
                                  {"checked", std::to_string(counts.checked)}});
      return;
    }
    LogInfo("scrub_round", {{"kind", std::string(round.kind)},
                            {"checked", std::to_string(counts.checked)},
                            {"bytes", std::to_string(counts.bytes)},
                            {"damaged", std::to_string(counts.damaged)},
                            {"mended", std::to_string(counts.mended)},
                            {"skipped", std::to_string(counts.skipped)},
                            {"errors", std::to_string(counts.errors)},
                            {"ms", std::to_string(took.count())}});
  }
};

}  // namespace quire::kvserver

#endif  // QUIRE_APPS_QUIRED_SCRUB_LOG_H_
