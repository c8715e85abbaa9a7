// SPDX-License-Identifier: Apache-2.0
//
// UnsyncedChanges: what hangs on the next durable commit of the SSD tier.
//
// A put that need not persist writes payload and commits its record without a sync, and a power
// failure may keep the record and lose the payload. So its batch holds a note, a row of the
// database that names the segment, until the payload is known to be synced. When the store is
// opened, the segments of the notes that are left are read, and those that are not whole are
// dropped: nobody is told that they are there.
//
// A change that frees space, or that failed, may be undone by a power failure, too. Space that the
// record of before names is given out again only once the change is durable; until then it waits
// here.
//
//   put       StageNote, commit, AddNotes
//   replace   commit, AddSpace
//   sync      Take, sync the payload, StageForget, commit with sync; the space of what was taken is
//             free. When a step fails: GiveBack.
//
// Thread-safety: all methods may be called concurrently. Units: bytes.
#ifndef QUIRE_KVSERVER_STORE_METADATA_UNSYNCED_CHANGES_H_
#define QUIRE_KVSERVER_STORE_METADATA_UNSYNCED_CHANGES_H_

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "common/base/mutex.h"
#include "kvserver/store/metadata/database.h"
#include "kvserver/store/payload/location.h"
#include "quire/key.h"
#include "quire/status.h"

namespace quire::kvserver {

class UnsyncedChanges {
 public:
  /// Numbers of notes, and the bytes of payload that they are for.
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

  /// Adds the note of a segment to the batch that stores it. Returns its number.
  uint64_t StageNote(const SegmentKey& segment, Database::Batch& batch);
  /// The batch with these notes was committed, after the payload was written.
  void AddNotes(Notes notes);
  /// The change that freed this space was committed, or failed; it may still be undone.
  void AddSpace(Location location);

  /// Everything that was added so far.
  Taken Take();
  void GiveBack(Taken taken);
  /// Adds to `batch` that the payload of these notes is durable.
  static void StageForget(const Notes& notes, Database::Batch& batch);

  /// Payload whose notes are added and not taken.
  uint64_t noted_bytes() const;
  /// Space that waits.
  uint64_t waiting_bytes() const;

  /// Calls visit(number, segment) for every note of the database. A damaged row is passed with the
  /// root's key.
  static Status VisitNotes(Database& database,
                           const std::function<void(uint64_t, const SegmentKey&)>& visit);

 private:
  mutable Mutex mutex_;
  uint64_t next_number_ QUIRE_GUARDED_BY(mutex_) = 0;
  Taken added_ QUIRE_GUARDED_BY(mutex_);
  uint64_t waiting_bytes_ QUIRE_GUARDED_BY(mutex_) = 0;  ///< Of added_.space.
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_METADATA_UNSYNCED_CHANGES_H_
