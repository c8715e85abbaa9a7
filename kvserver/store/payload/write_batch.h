// SPDX-License-Identifier: Apache-2.0
//
// WriteBatch: one write of the payload store as requests for an engine. Later parts are made, or
// gathered, while earlier ones are in flight. Memory of gathered parts is bounded. After a failure
// no more writes start.
//
//   WriteBatch batch(volumes, pool, location, source);
//   engine.Run(batch);
//   QUIRE_RETURN_IF_ERROR(batch.status());
//
// Ownership: all arguments outlive the batch. Thread-safety: none.
#ifndef QUIRE_KVSERVER_STORE_PAYLOAD_WRITE_BATCH_H_
#define QUIRE_KVSERVER_STORE_PAYLOAD_WRITE_BATCH_H_

#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "kvserver/store/payload/engine/aligned_buffer.h"
#include "kvserver/store/payload/engine/io_engine.h"
#include "kvserver/store/payload/volume/location.h"
#include "kvserver/store/payload/volume/volume_set.h"
#include "kvserver/store/payload/write_plan.h"
#include "quire/status.h"

namespace quire::kvserver {

class WriteBatch final : public IoStream {
 public:
  /// `source` gives location.bytes bytes.
  WriteBatch(const VolumeSet& volumes, AlignedBufferPool& pool, const Location& location,
             SpanSource source)
      : volumes_(volumes),
        pool_(pool),
        location_(location),
        plan_(location.bytes, std::move(source)) {}

  IoRequest* Next() override;
  void Ended(IoRequest& request) override;

  /// The first failure. Device errors such as UNAVAILABLE name file and place. Errors of the source
  /// are passed on.
  const Status& status() const { return status_; }
  struct Totals {
    uint64_t writes = 0, bytes = 0, errors = 0;  ///< Device writes, their bytes and errors.
  };
  const Totals& totals() const { return totals_; }

 private:
  struct Write : IoRequest {
    const VolumeFile* volume = nullptr;
    AlignedBuffer gathered;  ///< Gathered bytes; empty when written in place.
  };

  /// Null when there is no buffer now.
  StatusOr<Write*> Plan();
  Write* TakeRoom();

  const VolumeSet& volumes_;
  AlignedBufferPool& pool_;
  const Location& location_;
  WritePlan plan_;
  std::deque<Write> room_;     ///< All writes so far.
  std::vector<Write*> free_;   ///< Writes of room_ that are not in flight.
  uint64_t buffer_bytes_ = 0;  ///< Buffer memory in flight.
  Status status_;
  Totals totals_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_PAYLOAD_WRITE_BATCH_H_
