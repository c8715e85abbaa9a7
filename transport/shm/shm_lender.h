// SPDX-License-Identifier: Apache-2.0
//
// ShmLender: chooses how each slice that a server sends reaches one client, the cheapest way first:
//
//   in place   the slice lies in a shared region and has an owner: a descriptor and a lease
//   copied     into the connection's copy-out memory, which only this client maps: the same
//   inline     through the socket: small slices, and those without room elsewhere
//
// A client that holds as much as it may and releases nothing receives copies, and then inline
// bytes. The server keeps nothing for the latter.
//
// Ownership: see shm_leases.h.
// Thread-safety: all methods may be called concurrently.
#ifndef QUIRE_TRANSPORT_SHM_SHM_LENDER_H_
#define QUIRE_TRANSPORT_SHM_SHM_LENDER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/threads/mutex.h"
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
  /// How one payload travels.
  struct Lent {
    std::vector<ShmDescriptor> slices;
    Payload inline_payload;
    uint64_t lease = 0;  ///< Number in `leases`; 0 for none.
    uint64_t needs = 0;  ///< Preludes of the stream that must precede it.
    std::shared_ptr<ShmLeases> leases = {};
    uint64_t in_place_bytes = 0;  ///< Payload bytes lent in place.
    uint64_t copied_bytes = 0;
  };

  /// `loop` outlives the lender.
  ShmLender(ShmLoop* loop, std::shared_ptr<ShmStream> stream,
            std::shared_ptr<const ShmRegions> regions, std::shared_ptr<ShmUse> use,
            const Options& options);

  Lent Lend(Payload payload);
  /// Counts the bytes of a packet that was sent.
  void CountSent(const Lent& lent);
  /// Releases the lease of a packet that was not sent.
  static void ReleaseUnsent(const Lent& lent);
  /// Ends the connection; see ShmLeases::Orphan.
  void Orphan();

 private:
  /// Payload below this size goes through the socket: a lease costs more than the copy.
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
  std::vector<uint64_t> region_needs_;  // By region number.

  Mutex mutex_;
  // Set after the first attempt, also when it failed.
  bool opened_ QUIRE_GUARDED_BY(mutex_) = false;
  std::shared_ptr<ShmLeases> leases_ QUIRE_GUARDED_BY(mutex_);
  uint64_t channel_needs_ QUIRE_GUARDED_BY(mutex_) = 0;
  uint64_t copy_out_needs_ QUIRE_GUARDED_BY(mutex_) = 0;
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_SHM_SHM_LENDER_H_
