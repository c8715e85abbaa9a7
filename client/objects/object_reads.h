// SPDX-License-Identifier: Apache-2.0
//
// ObjectReads: ranges of objects on their way from a server, over as many replies as they take. It
// says what to ask for next, and takes replies in, piece by piece. It checks them, verifies every
// unit, and keeps or copies the bytes of the ranges. An object that was replaced between two
// replies is read again from its start, so a result has the bytes of one put. No I/O.
//
// Ownership: keys and memory of the ranges outlive it. Thread-safety: none.
#ifndef QUIRE_CLIENT_OBJECTS_OBJECT_READS_H_
#define QUIRE_CLIENT_OBJECTS_OBJECT_READS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "common/base/memory/payload_cutter.h"
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
    uint64_t bytes = 0;               ///< 0: to the object's end.
    const Destination* to = nullptr;  ///< Set: bytes are copied there, and not kept.
    bool exact = false;               ///< As in ObjectInto.
    bool done = false;                ///< True when all of it has come, or it is not stored.
    uint64_t object_bytes = 0;        ///< 0: not stored.
    uint64_t incarnation = 0;         ///< 0: nothing has come.
    uint64_t taken = 0;               ///< Bytes that have come.
    Payload kept = {};

    /// Bytes that are wanted from `offset` on; 0: to the object's end.
    uint64_t wanted() const { return to == nullptr ? bytes : to->size_bytes(); }
    /// The same range, of which nothing has come.
    Read FromStart() const {
      return {.key = key, .offset = offset, .bytes = bytes, .to = to, .exact = exact};
    }
  };

  explicit ObjectReads(std::vector<Read> reads) : reads_(std::move(reads)) {}

  /// Sets the ranges that are still to be read. Returns false when there are none.
  bool Next(v1::GetObjectsRequest* request);
  /// Begins to take the reply to the last request in, its payload in pieces. A second reply to one
  /// request replaces the first. All return DATA_LOSS for a reply that breaks the protocol; End
  /// also for units that came damaged too often.
  [[nodiscard]] Status Begin(v1::GetObjectsReply reply);
  [[nodiscard]] Status Take(const Payload& piece);
  [[nodiscard]] Status End();

  std::vector<Read>& reads() { return reads_; }

 private:
  /// A unit of a reply that did not match.
  struct Mismatch {
    std::string_view key;
    uint32_t unit = 0;
    uint32_t crc32c = 0;
  };
  /// Consecutive units of one object.
  struct Units {
    uint64_t object_bytes = 0;
    uint64_t incarnation = 0;
    uint32_t first = 0;
    std::span<const uint32_t> crc32c;

    ObjectShape shape() const { return ObjectShape::Of(object_bytes); }
  };
  /// Takes the whole units at the start of `left` bytes that `cutter` has, and lowers `left`.
  Status TakeFrom(PayloadCutter& cutter, uint64_t* left, const Payload& leases);
  /// Returns false when the rest of the object in this reply is of no use.
  StatusOr<bool> TakeUnits(Read& read, const Units& units, const Payload& payload);
  /// The range's bytes in units that came: `bytes` after `skip`.
  struct Part {
    const Units& units;
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
  std::vector<Read> before_;          ///< These reads as they were then.
  std::vector<Mismatch> mismatches_;  ///< Units of the last reply.
  v1::GetObjectsReply reply_;         ///< The reply that is being taken in.
  int object_ = 0;                    ///< Its next object, and the next unit of that.
  int unit_ = 0;
  bool skips_object_ = false;  ///< The rest of that object is of no use.
  bool loan_ended_ = false;    ///< None of its bytes count.
  Payload rest_;               ///< Less than a unit, before the next piece.
  uint32_t failures_ = 0;      ///< Replies in a row that brought nothing.
};

}  // namespace quire::internal

#endif  // QUIRE_CLIENT_OBJECTS_OBJECT_READS_H_
