// SPDX-License-Identifier: Apache-2.0
//
// UnsyncedChanges: work that depends on the next durable commit of the SSD tier.
//
// A put that need not persist writes payload and commits its record without a sync. A power failure
// may keep the record and lose the payload. Its batch therefore holds a note, a row that names the
// segment, until the payload is synced. At open the segments of remaining notes are read, and
// incomplete ones are dropped before they can be served.
//
// A power failure may also undo a change that freed space, or that failed. Space of the earlier
// record waits here until the change is durable.
//
//   put       StageNote, commit, AddNotes
//   replace   commit, AddSpace
//   sync      Take, sync the payload, StageForget, commit with sync; the taken space is free.
//             When a step fails: GiveBack.
//
// Thread-safety: all methods may be called concurrently. Units: bytes.
#ifndef QUIRE_KVSERVER_STORE_METADATA_UNSYNCED_CHANGES_H_
#define QUIRE_KVSERVER_STORE_METADATA_UNSYNCED_CHANGES_H_

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "common/base/threads/mutex.h"
#include "kvserver/store/metadata/database.h"
#include "kvserver/store/payload/volume/location.h"
#include "quire/key.h"
#include "quire/status.h"

namespace quire::kvserver {

class UnsyncedChanges {
 public:
  /// Numbers of notes, and the bytes of their payload.
  struct Notes {
    std::vector<uint64_t> numbers;
    uint64_t bytes = 0;
  };
  /// Notes and freed space that one sync is responsible for.
  struct Taken {
    Notes notes;
    std::vector<Location> space;
    bool empty() const { return notes.numbers.empty() && space.empty(); }
  };

  /// Adds the note of a segment to the batch that stores it. Returns the note's number.
  uint64_t StageNote(const SegmentKey& segment, Database::Batch& batch);
  /// Adds notes whose batch was committed after the payload was written.
  void AddNotes(Notes notes);
  /// Adds space freed by a committed or failed change that may still be undone.
  void AddSpace(Location location);

  /// Takes everything added so far.
  Taken Take();
  void GiveBack(Taken taken);
  /// Adds to `batch` the removal of notes whose payload is durable.
  static void StageForget(const Notes& notes, Database::Batch& batch);

  /// Payload bytes of notes that are added and not taken.
  uint64_t noted_bytes() const;
  /// Bytes of space that waits.
  uint64_t waiting_bytes() const;

  /// Calls visit(number, segment) for every note of the database. Passes the root's key for a
  /// damaged row.
  static Status VisitNotes(Database& database,
                           const std::function<void(uint64_t, const SegmentKey&)>& visit);

 private:
  mutable Mutex mutex_;
  uint64_t next_number_ QUIRE_GUARDED_BY(mutex_) = 0;
  Taken added_ QUIRE_GUARDED_BY(mutex_);
  uint64_t waiting_bytes_ QUIRE_GUARDED_BY(mutex_) = 0;  ///< Bytes of added_.space.
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_METADATA_UNSYNCED_CHANGES_H_
