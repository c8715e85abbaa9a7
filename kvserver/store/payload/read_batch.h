// SPDX-License-Identifier: Apache-2.0
//
// ReadBatch: turns the read requests of one call into the I/O requests that an engine runs, and
// their results back into statuses. A destination that keeps the file's alignment is read straight
// into; for any other the blocks around it are read into a buffer and copied. The memory of these
// buffers stays within bounds. Each request that is done is told while others are in flight.
//
//   ReadBatch batch(volumes, pool, requests, done);
//   engine.Run(batch);
//
// Ownership: everything given outlives the batch. Thread-safety: none.
#ifndef QUIRE_KVSERVER_STORE_PAYLOAD_READ_BATCH_H_
#define QUIRE_KVSERVER_STORE_PAYLOAD_READ_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "kvserver/store/payload/aligned_buffer.h"
#include "kvserver/store/payload/io_engine.h"
#include "kvserver/store/payload/location.h"
#include "kvserver/store/payload/volume_set.h"
#include "quire/status.h"

namespace quire::kvserver {

/// Bytes [offset, offset + destination.size()) of a location.
struct ReadRequest {
  const Location* location = nullptr;
  uint64_t offset = 0;
  std::span<std::byte> destination;
  /// Result. INVALID_ARGUMENT: past the end of the location. DATA_LOSS: the volume, or that part of
  /// its file, is gone. UNAVAILABLE: the device failed. RESOURCE_EXHAUSTED: no buffer.
  Status status;
  uint32_t parts = 0;  ///< The batch's: what is left to happen before it is done.
};
/// Told of a request that has its status, and its bytes when that is OK.
using ReadDone = std::function<void(ReadRequest&)>;

class ReadBatch final : public IoStream {
 public:
  ReadBatch(const VolumeSet& volumes, AlignedBufferPool& pool, std::span<ReadRequest> requests,
            ReadDone done)
      : volumes_(volumes), pool_(pool), left_(requests), done_(std::move(done)) {}

  IoRequest* Next() override;
  void Ended(IoRequest& request) override;

  struct Totals {
    uint64_t reads = 0, bytes = 0, errors = 0;  ///< Of the device.
    uint64_t buffered = 0;                      ///< Reads that went through a buffer.
  };
  const Totals& totals() const { return totals_; }

 private:
  /// What one I/O request is for.
  struct Piece : IoRequest {
    ReadRequest* wanted = nullptr;
    const VolumeFile* volume = nullptr;
    std::span<std::byte> destination;
    AlignedBuffer through;  ///< Empty when read straight into the destination.
    size_t skip = 0;        ///< Of the buffer, before the bytes that are wanted.
  };

  /// Plans the next piece of the first request that is left. False when there is no room for its
  /// buffer now; `piece` stays null when the request has ended instead.
  bool Plan(Piece** piece);
  bool PlanAt(ReadRequest& request, const LocatedPiece& located, std::span<std::byte> destination,
              Piece** piece);
  Piece* Add(ReadRequest& request, const VolumeFile& volume, uint64_t file_offset,
             std::span<std::byte> into, std::span<std::byte> destination);
  /// No more of the first request is planned.
  void EndFirst(Status status);
  void PartDone(ReadRequest& request);
  const VolumeFile* Volume(uint32_t number);
  static Status Result(const Piece& piece);

  const VolumeSet& volumes_;
  AlignedBufferPool& pool_;
  std::span<ReadRequest> left_;
  const ReadDone done_;
  uint64_t position_ = 0;  ///< Bytes of the first request in left_ that are planned.
  const VolumeFile* last_volume_ = nullptr;
  std::deque<Piece> room_;     ///< Of all pieces so far.
  std::vector<Piece*> free_;   ///< Those of room_ that are not in flight.
  uint64_t buffer_bytes_ = 0;  ///< In flight.
  Totals totals_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_PAYLOAD_READ_BATCH_H_
