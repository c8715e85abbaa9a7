// SPDX-License-Identifier: Apache-2.0
//
// A health board whose lines a test reads.
#ifndef QUIRE_TESTS_KIT_HEALTH_LINES_H_
#define QUIRE_TESTS_KIT_HEALTH_LINES_H_

#include <string>
#include <vector>

#include "common/base/observe/health.h"
#include "common/base/threads/mutex.h"
#include "quire/clock.h"

namespace quire::testing {

/// Thread-safety: all methods may be called concurrently.
class HealthLines {
 public:
  Health* board() { return &board_; }
  /// The lines so far, as "REASON: detail".
  std::vector<std::string> lines() const {
    MutexLock lock(mutex_);
    return lines_;
  }

 private:
  mutable Mutex mutex_;
  std::vector<std::string> lines_ QUIRE_GUARDED_BY(mutex_);
  Health board_{&SystemClock(), [this](const Health::Line& line) {
                  MutexLock lock(mutex_);
                  lines_.push_back(std::string(Name(line.trouble)) + ": " + line.detail);
                }};
};

}  // namespace quire::testing

#endif  // QUIRE_TESTS_KIT_HEALTH_LINES_H_
