// SPDX-License-Identifier: Apache-2.0
//
// ServerEvent: what a load of a store and its registry tells of one operation: an event when it
// starts and one when it has ended. Events of one chain and its document come from one thread, in
// order. Plain values; they go through a pipe as they are, between processes of one program.
#ifndef QUIRE_BENCH_TORTURE_SERVER_EVENT_H_
#define QUIRE_BENCH_TORTURE_SERVER_EVENT_H_

#include <cstdint>
#include <functional>
#include <type_traits>

#include "bench/torture/corpus.h"
#include "bench/torture/history.h"

namespace quire::torture {

struct ServerEvent {
  enum class Kind : uint8_t {
    kPutStarts,
    kPutEnds,  ///< `flag`: as persisted.
    kDeleteStarts,
    kDeleteEnds,        ///< `flag`: an open context holds the segment, which goes with it.
    kRead,              ///< `found`.
    kRegisterStarts,    ///< `micros`: when the document will expire.
    kRegisterEnds,      ///< `flag`: it was there before. `micros`: when it expires.
    kUnregisterStarts,  ///< `flag`: its segments stay.
    kUnregisterEnds,
    kPinStarts,
    kPinEnds,
    kUnpinStarts,
    kUnpinEnds,
    kTimeIs,          ///< `micros`: from now on. What expires by then is gone, or goes.
    kExpiredRemoved,  ///< What had expired is removed.
  };
  static constexpr int64_t kNever = INT64_MAX;  ///< `micros` of a document that does not expire.

  Kind kind = Kind::kPutStarts;
  bool ok = false;    ///< Of what ends.
  bool flag = false;  ///< As the kind says.
  Found found = Found::kMissing;
  SegmentId segment = {};  ///< Of a document: the chain that it is made of.
  int64_t micros = 0;
};
static_assert(std::is_trivially_copyable_v<ServerEvent>);

/// Gets the events; called from several threads at once.
using ServerEventSink = std::function<void(const ServerEvent&)>;

}  // namespace quire::torture

#endif  // QUIRE_BENCH_TORTURE_SERVER_EVENT_H_
