// SPDX-License-Identifier: Apache-2.0
//
// ServerEvent: a report of a load on a store and its registry, at the start and at the end of an
// operation. Events of one chain and its document come from one thread, in order. Plain values; a
// pipe carries them unchanged between processes of one program.
#ifndef QUIRE_BENCH_TORTURE_SERVER_SERVER_EVENT_H_
#define QUIRE_BENCH_TORTURE_SERVER_SERVER_EVENT_H_

#include <cstdint>
#include <functional>
#include <type_traits>

#include "bench/torture/store/corpus.h"
#include "bench/torture/store/history.h"

namespace quire::torture {

struct ServerEvent {
  enum class Kind : uint8_t {
    kPutStarts,
    kPutEnds,  ///< `flag`: as persisted.
    kDeleteStarts,
    kDeleteEnds,        ///< `flag`: an open context holds the segment, which is deleted with it.
    kRead,              ///< `found`: the state found.
    kRegisterStarts,    ///< `micros`: time of the document's expiry.
    kRegisterEnds,      ///< `flag`: it existed before. `micros`: time of its expiry.
    kUnregisterStarts,  ///< `flag`: its segments remain.
    kUnregisterEnds,
    kPinStarts,
    kPinEnds,
    kUnpinStarts,
    kUnpinEnds,
    /// `micros`: the time from now on. Documents that expire by then are, or are being, removed.
    kTimeIs,
    kExpiredRemoved,  ///< All expired documents are removed.
  };
  static constexpr int64_t kNever = INT64_MAX;  ///< `micros` of a document that does not expire.

  Kind kind = Kind::kPutStarts;
  bool ok = false;    ///< Result of an operation that ends.
  bool flag = false;  ///< Meaning depends on the kind.
  Found found = Found::kMissing;
  SegmentId segment = {};  ///< For a document: the chain that it consists of.
  int64_t micros = 0;
};
static_assert(std::is_trivially_copyable_v<ServerEvent>);

/// Receives the events; called from several threads at once.
using ServerEventSink = std::function<void(const ServerEvent&)>;

}  // namespace quire::torture

#endif  // QUIRE_BENCH_TORTURE_SERVER_SERVER_EVENT_H_
