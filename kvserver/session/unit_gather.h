// SPDX-License-Identifier: Apache-2.0
//
// UnitGather: reads the units of one part of a reply, of any members, in one call of the store.
// Reuse does not allocate once it has grown to the size of a part. Thread-safety: none. Ownership:
// units keep their owners until they are taken or cleared.
#ifndef QUIRE_KVSERVER_SESSION_UNIT_GATHER_H_
#define QUIRE_KVSERVER_SESSION_UNIT_GATHER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "kvserver/session/session_sequence.h"
#include "kvserver/store/page_store.h"
#include "quire/status.h"
#include "quire/unit_codec.h"

namespace quire::kvserver {

class UnitGather {
 public:
  void Clear();
  /// Adds the units of pages named in `pages`, at a layer and KV head. REQUIRES: every name has a
  /// known member and page.
  void Add(std::span<const MemberView> members, uint32_t layer, uint32_t head,
           std::span<const uint32_t> pages);
  /// Reads the added units: as they are stored where their codec is in `codecs`, and decoded
  /// otherwise. The receiver verifies them. Errors are the store's; nothing is read then.
  [[nodiscard]] Status Read(PageStore& store, const Caller& caller, const CodecSet& codecs);
  /// Bytes of kept memory.
  size_t capacity_bytes() const {
    return stored_.capacity() * sizeof(UnitAddress) + units_.capacity() * sizeof(UnitBytes);
  }
  /// The units, in the order of Add.
  std::span<UnitBytes> units() { return units_; }

 private:
  /// A unit of an open context that is in memory.
  struct TailUnit {
    size_t position;
    UnitBytes unit;
  };
  /// Inserts the units of tails between those read.
  void MergeTails();

  std::vector<UnitAddress> stored_;
  std::vector<TailUnit> tails_;
  std::vector<UnitBytes> units_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SESSION_UNIT_GATHER_H_
