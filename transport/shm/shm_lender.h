// SPDX-License-Identifier: Apache-2.0
//
// ShmLender: how each slice that a server sends gets to one client, the cheapest way that is open:
//
//   in place   it lies in a shared region and has an owner: a descriptor and a lease
//   copied     into the connection's copy-out memory, which only this client maps: the same
//   inline     through the socket: what is small, and what finds no room otherwise
//
// A client that holds as much as it may, and gives nothing back, is sent copies and then inline
// bytes, for which the server keeps nothing.
//
// Ownership: see shm_leases.h. Thread-safety: all methods may be called concurrently.
#ifndef QUIRE_TRANSPORT_SHM_SHM_LENDER_H_
#define QUIRE_TRANSPORT_SHM_SHM_LENDER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/mutex.h"
#include "quire/payload.h"
#include "transport/shm/shm_copy_out.h"
#include "transport/shm/shm_leases.h"
#include "transport/shm/shm_loop.h"
#include "transport/shm/shm_regions.h"
#include "transport/shm/shm_stream.h"
#include "transport/shm/shm_wire.h"

namespace quire {

class ShmLender {
 public:
  struct Options {
    ShmLeases::Limits leases;
    uint64_t copy_out_bytes = 0;
  };
  /// How a payload travels.
  struct Lent {
    std::vector<ShmDescriptor> slices;
    Payload inline_payload;
    uint64_t lease = 0;  ///< Of `leases`; 0 for none.
    uint64_t needs = 0;  ///< Preludes of the stream.
    std::shared_ptr<ShmLeases> leases = {};
    uint64_t in_place_bytes = 0;  ///< Of the payload; the rest is copied.
    uint64_t copied_bytes = 0;
  };

  /// `loop` outlives the lender.
  ShmLender(ShmLoop* loop, std::shared_ptr<ShmStream> stream,
            std::shared_ptr<const ShmRegions> regions, std::shared_ptr<ShmUse> use,
            const Options& options);

  Lent Lend(Payload payload);
  /// The packet was sent.
  void CountSent(const Lent& lent);
  /// The packet was not sent.
  static void TakeBack(const Lent& lent);
  /// The connection has ended; see ShmLeases::Orphan.
  void Orphan();

 private:
  /// Copies cost a lease: smaller payloads are cheaper through the socket.
  static constexpr uint64_t kSmallBytes = 4096;

  uint64_t Locate(const Payload& payload, Lent* lent) const;
  bool Reserve(uint64_t bytes, Lent* lent);
  ShmCopyOut::Block Copy(const Payload& payload, Lent* lent);
  std::shared_ptr<ShmLeases> Channel(uint64_t* needs);
  uint64_t CopyOutPrelude();

  ShmLoop* const loop_;
  const std::shared_ptr<ShmStream> stream_;
  const std::shared_ptr<const ShmRegions> regions_;
  const std::shared_ptr<ShmUse> use_;
  const Options options_;
  const std::shared_ptr<ShmCopyOut> copy_out_;
  std::vector<uint64_t> region_needs_;  // By number.

  Mutex mutex_;
  bool opened_ QUIRE_GUARDED_BY(mutex_) = false;  // Or tried to.
  std::shared_ptr<ShmLeases> leases_ QUIRE_GUARDED_BY(mutex_);
  uint64_t channel_needs_ QUIRE_GUARDED_BY(mutex_) = 0;
  uint64_t copy_out_needs_ QUIRE_GUARDED_BY(mutex_) = 0;
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_SHM_SHM_LENDER_H_
