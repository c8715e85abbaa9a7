// SPDX-License-Identifier: Apache-2.0
//
// ReadBatch: turns the read requests of one call into I/O requests of an engine, and their results
// into statuses. An aligned destination is read into directly. For any other the surrounding blocks
// are read into a buffer and copied. Memory of these buffers is bounded. Each completed request is
// reported while others are in flight.
//
//   ReadBatch batch(volumes, pool, requests, done);
//   engine.Run(batch);
//
// Ownership: all arguments outlive the batch. Thread-safety: none.
#ifndef QUIRE_KVSERVER_STORE_PAYLOAD_READ_BATCH_H_
#define QUIRE_KVSERVER_STORE_PAYLOAD_READ_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "kvserver/store/payload/engine/aligned_buffer.h"
#include "kvserver/store/payload/engine/io_engine.h"
#include "kvserver/store/payload/volume/location.h"
#include "kvserver/store/payload/volume/volume_set.h"
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
  uint32_t parts = 0;  ///< For the batch only: parts not yet complete.
};
/// Called for a request once it has its status, and its bytes when that is OK.
using ReadDone = std::function<void(ReadRequest&)>;

class ReadBatch final : public IoStream {
 public:
  ReadBatch(const VolumeSet& volumes, AlignedBufferPool& pool, std::span<ReadRequest> requests,
            ReadDone done)
      : volumes_(volumes), pool_(pool), left_(requests), done_(std::move(done)) {}

  IoRequest* Next() override;
  void Ended(IoRequest& request) override;

  struct Totals {
    uint64_t reads = 0, bytes = 0, errors = 0;  ///< Device reads, their bytes and errors.
    uint64_t buffered = 0;                      ///< Reads that went through a buffer.
  };
  const Totals& totals() const { return totals_; }

 private:
  /// The purpose of one I/O request.
  struct Piece : IoRequest {
    ReadRequest* wanted = nullptr;
    const VolumeFile* volume = nullptr;
    std::span<std::byte> destination;
    AlignedBuffer through;  ///< Empty when read straight into the destination.
    size_t skip = 0;        ///< Bytes of the buffer before the wanted ones.
  };

  /// Plans the next piece of the first remaining request. Returns false when there is no room for
  /// its buffer now. `piece` stays null when the request has ended instead.
  bool Plan(Piece** piece);
  bool PlanAt(ReadRequest& request, const LocatedPiece& located, std::span<std::byte> destination,
              Piece** piece);
  Piece* Add(ReadRequest& request, const VolumeFile& volume, uint64_t file_offset,
             std::span<std::byte> into, std::span<std::byte> destination);
  /// Ends the planning of the first request.
  void EndFirst(Status status);
  void PartDone(ReadRequest& request);
  const VolumeFile* Volume(uint32_t number);
  static Status Result(const Piece& piece);

  const VolumeSet& volumes_;
  AlignedBufferPool& pool_;
  std::span<ReadRequest> left_;
  const ReadDone done_;
  uint64_t position_ = 0;  ///< Planned bytes of the first request in left_.
  const VolumeFile* last_volume_ = nullptr;
  std::deque<Piece> room_;     ///< All pieces so far.
  std::vector<Piece*> free_;   ///< Pieces of room_ that are not in flight.
  uint64_t buffer_bytes_ = 0;  ///< Buffer memory in flight.
  Totals totals_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_PAYLOAD_READ_BATCH_H_
