// SPDX-License-Identifier: Apache-2.0
//
// DirectLanding: the transport's end of a SessionLanding, and the calls that were given up while
// the server may still write there for them. A cancelled recall into a staging area leaves its
// call here until the server confirms the end. Until then its lanes are recalled in messages, which
// need no place.
//
// Ownership: of the landing and of the calls, which end before it. Thread-safety: none; it belongs
// to the thread of its session.
#ifndef QUIRE_CLIENT_RECALL_DIRECT_LANDING_H_
#define QUIRE_CLIENT_RECALL_DIRECT_LANDING_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "transport/transport.h"

namespace quire::internal {

class DirectLanding {
 public:
  /// Lanes of the session, by SessionLanding::LaneIndex.
  using Lanes = std::vector<uint64_t>;

  /// Null where units do not land by themselves, and after End.
  Landing* get() const { return landing_.get(); }
  void Begin(std::unique_ptr<Landing> landing) { landing_ = std::move(landing); }
  /// Waits for the calls that were left, and takes the landing back: nothing arrives any more.
  void End();

  /// Keeps `call`, which is cancelled and was to bring `lanes`, until nothing of it can arrive.
  void Leave(std::unique_ptr<PendingCall> call, Lanes lanes);
  /// True when something may still arrive for one of `lanes`. Never waits.
  bool MayStillLand(const Lanes& lanes);

 private:
  struct Left {
    std::unique_ptr<PendingCall> call;
    Lanes lanes;
  };

  std::unique_ptr<Landing> landing_;
  std::vector<Left> left_;  ///< Goes before landing_.
};

}  // namespace quire::internal

#endif  // QUIRE_CLIENT_RECALL_DIRECT_LANDING_H_
