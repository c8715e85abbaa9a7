// SPDX-License-Identifier: Apache-2.0
//
// ObjectReads: ranges of objects on their way from a server, over as many replies as they take. It
// says what to ask for next, and takes replies in: it checks them, verifies every unit, and keeps
// or copies the bytes of the ranges. An object that was replaced between two replies is read again
// from its start, so a result has the bytes of one put. No I/O.
//
// Ownership: keys and memory of the ranges outlive it. Thread-safety: none.
#ifndef QUIRE_CLIENT_OBJECTS_OBJECT_READS_H_
#define QUIRE_CLIENT_OBJECTS_OBJECT_READS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "quire/objects.h"
#include "quire/payload.h"
#include "quire/status.h"
#include "quire/v1/object.pb.h"

namespace quire::internal {

class ObjectReads {
 public:
  static constexpr std::string_view kMethod = "quire.v1.Objects/Get";

  /// A range to read, and what has come of it.
  struct Read {
    std::string_view key;
    uint64_t offset = 0;
    uint64_t bytes = 0;            ///< 0: to the object's end.
    std::span<std::byte> to = {};  ///< Set: bytes are copied there, and not kept.
    bool done = false;             ///< True when all of it has come, or it is not stored.
    uint64_t object_bytes = 0;     ///< 0: not stored.
    uint64_t incarnation = 0;      ///< 0: nothing has come.
    uint64_t taken = 0;            ///< Bytes that have come.
    Payload kept = {};
  };

  explicit ObjectReads(std::vector<Read> reads) : reads_(std::move(reads)) {}

  /// Sets the ranges that are still to be read. Returns false when there are none.
  bool Next(v1::GetObjectsRequest* request);
  /// Takes the reply to the last request in. DATA_LOSS for one that breaks the protocol, and for
  /// units that came damaged too often.
  [[nodiscard]] Status Take(const v1::GetObjectsReply& reply, const Payload& payload);

  std::vector<Read>& reads() { return reads_; }

 private:
  /// A unit of a reply that did not match.
  struct Mismatch {
    std::string_view key;
    uint32_t unit = 0;
    uint32_t crc32c = 0;
  };
  Status TakeUnits(Read& read, const v1::ObjectUnits& units, const Payload& payload);
  /// The range's bytes in units that came: `bytes` after `skip`.
  struct Part {
    const v1::ObjectUnits& units;
    const Payload& payload;
    uint64_t skip = 0;
    uint64_t bytes = 0;
  };
  // Both verify the units, and return false when one does not match.
  bool Keep(Read& read, const Part& part);
  bool Copy(Read& read, const Part& part);
  void NoteMismatch(const Read& read, uint64_t unit, uint32_t crc32c);

  std::vector<Read> reads_;
  std::vector<size_t> asked_;         ///< Reads of the last request.
  std::vector<Mismatch> mismatches_;  ///< Units of the last reply.
  uint32_t failures_ = 0;             ///< Replies in a row that brought nothing.
};

}  // namespace quire::internal

#endif  // QUIRE_CLIENT_OBJECTS_OBJECT_READS_H_
