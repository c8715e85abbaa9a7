// SPDX-License-Identifier: Apache-2.0
//
// ReadBatch: turns the read requests of one call into I/O requests and their results back into
// statuses. A destination that keeps the file's alignment is read straight into; for any other the
// blocks around it are read into a buffer and copied. Large batches come in waves, so that the
// buffers stay within bounds.
//
//   ReadBatch batch(volumes, pool, requests);
//   for (auto io = batch.Next(); !io.empty(); io = batch.Next()) {
//     engine.Run(io);
//     batch.Finish();
//   }
//
// Ownership: everything given outlives the batch. Thread-safety: none.
#ifndef QUIRE_KVSERVER_STORE_PAYLOAD_READ_BATCH_H_
#define QUIRE_KVSERVER_STORE_PAYLOAD_READ_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "kvserver/store/payload/aligned_buffer.h"
#include "kvserver/store/payload/io_engine.h"
#include "kvserver/store/payload/location.h"
#include "kvserver/store/payload/volume_set.h"

namespace quire::kvserver {

/// The largest single transfer; longer ones are cut so that their parts are in flight together.
inline constexpr uint64_t kMaxIoBytes = 1 << 20;

/// Bytes [offset, offset + destination.size()) of a location.
struct ReadRequest {
  const Location* location = nullptr;
  uint64_t offset = 0;
  std::span<std::byte> destination;
  /// Result. INVALID_ARGUMENT: past the end of the location. DATA_LOSS: the volume, or that part of
  /// its file, is gone. UNAVAILABLE: the device failed. RESOURCE_EXHAUSTED: no buffer.
  Status status;
};

class ReadBatch {
 public:
  ReadBatch(const VolumeSet& volumes, AlignedBufferPool& pool, std::span<ReadRequest> requests);

  /// The next requests to run; empty when all are done.
  std::span<IoRequest> Next();
  /// Takes over the results of what Next returned.
  void Finish();

  /// Pieces that went through a buffer.
  uint64_t buffered() const { return buffered_; }

 private:
  /// What one I/O request is for.
  struct Piece {
    ReadRequest* request = nullptr;
    const VolumeFile* volume = nullptr;
    std::span<std::byte> destination;
    AlignedBuffer buffer;  ///< Empty when read straight into the destination.
    size_t skip = 0;       ///< Of the buffer, before the bytes that are wanted.
  };

  /// Adds the next piece of the first request that is left. False when the wave is full.
  bool AddPiece();
  /// False when there is no room for its buffer now.
  bool Plan(ReadRequest& request, const LocatedPiece& located, std::span<std::byte> destination);
  void Add(Piece piece, uint64_t file_offset, std::span<std::byte> into);
  void EndRequest(Status status);
  const VolumeFile* Volume(uint32_t number);
  static Status Result(const Piece& piece, const IoRequest& io);

  const VolumeSet& volumes_;
  AlignedBufferPool& pool_;
  std::span<ReadRequest> left_;
  uint64_t position_ = 0;  ///< Bytes of the first request in left_ that are planned.
  const VolumeFile* last_volume_ = nullptr;
  std::vector<IoRequest> wave_;
  std::vector<Piece> pieces_;  ///< One per request of the wave.
  uint64_t buffer_bytes_ = 0;  ///< Of the wave.
  uint64_t buffered_ = 0;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_PAYLOAD_READ_BATCH_H_
