// SPDX-License-Identifier: Apache-2.0
//
// The two ends of a landing: UcxLocalLanding, memory of the client, and UcxRemoteLanding, what the
// server holds to write there. Thread-safety: of their worker's thread alone, but for mapped().
#ifndef QUIRE_COMMON_TRANSPORT_UCX_LANDING_H_
#define QUIRE_COMMON_TRANSPORT_UCX_LANDING_H_

#include <ucp/api/ucp.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/transport/landing_memory.h"
#include "common/transport/ucx_context.h"
#include "common/transport/ucx_endpoint.h"
#include "common/transport/ucx_segment.h"
#include "common/transport/ucx_wire.h"

namespace quire {

/// Memory that UCX knows. Ownership: of the mapping, and of the memory when UCX allocated it.
class UcxMemory {
 public:
  /// UNIMPLEMENTED for memory of a type that the context does not support.
  static StatusOr<std::shared_ptr<UcxMemory>> Map(std::shared_ptr<UcxContext> context,
                                                  const LandingMemory& memory);
  /// Memory that peers on the same host can map: the one kind that shared-memory lanes write
  /// without the help of this process.
  static StatusOr<std::shared_ptr<UcxMemory>> Allocate(std::shared_ptr<UcxContext> context,
                                                       size_t bytes);
  ~UcxMemory();
  UcxMemory(const UcxMemory&) = delete;
  UcxMemory& operator=(const UcxMemory&) = delete;

  std::span<std::byte> bytes() const { return bytes_; }
  bool Contains(std::span<const std::byte> part) const {
    return part.data() >= bytes_.data() &&
           part.data() + part.size() <= bytes_.data() + bytes_.size();
  }
  /// What a peer needs to write there.
  StatusOr<std::string> RemoteKey() const;

 private:
  UcxMemory(std::shared_ptr<UcxContext> context, ucp_mem_h handle, std::span<std::byte> bytes)
      : context_(std::move(context)), handle_(handle), bytes_(bytes) {}
  static StatusOr<std::shared_ptr<UcxMemory>> Create(std::shared_ptr<UcxContext> context,
                                                     const ucp_mem_map_params_t& params);

  const std::shared_ptr<UcxContext> context_;
  const ucp_mem_h handle_;
  const std::span<std::byte> bytes_;
};

class UcxLocalLanding {
 public:
  /// `registered` is null when the server does not write there itself.
  UcxLocalLanding(const LandingMemory& memory, uint64_t serial,
                  std::shared_ptr<UcxMemory> registered)
      : memory_(memory), serial_(serial), registered_(std::move(registered)) {}

  std::span<std::byte> bytes() const { return memory_.bytes; }
  uint64_t serial() const { return serial_; }
  bool is_direct() const { return registered_ != nullptr; }
  /// Whether this processor may write there.
  bool is_host() const { return memory_.is_host(); }
  /// `fetches`: see UcxLandingKey.
  StatusOr<std::string> Key(uint64_t id, const UcxSecret& secret, bool fetches) const;
  /// Copies a payload to its places. INVALID_ARGUMENT, with nothing copied, when one is outside.
  /// REQUIRES: is_host().
  Status Place(std::span<const UcxPlace> places, std::span<const std::byte> payload);

 private:
  const LandingMemory memory_;
  const uint64_t serial_;
  const std::shared_ptr<UcxMemory> registered_;
};

/// A landing that this end writes to: through a mapping, or by UCX.
class UcxRemoteLanding {
 public:
  /// Null for memory that only messages reach: memory of this host that this process has not mapped
  /// and that no lane writes by itself. INVALID_ARGUMENT for a key that is malformed, or of memory
  /// that is not there. REQUIRES: `key` has passed its signature's check.
  static StatusOr<std::shared_ptr<UcxRemoteLanding>> Open(UcxEndpoint& endpoint,
                                                          const UcxLandingKey& key);
  ~UcxRemoteLanding();
  UcxRemoteLanding(const UcxRemoteLanding&) = delete;
  UcxRemoteLanding& operator=(const UcxRemoteLanding&) = delete;

  bool Holds(const UcxPlace& place) const {
    return place.bytes <= memory_.bytes && place.offset <= memory_.bytes - place.bytes;
  }
  uint64_t AddressOf(uint64_t offset) const { return memory_.address + offset; }
  /// The landing as this process has it mapped: any thread may write there. Empty where only UCX
  /// writes to it.
  std::span<std::byte> mapped() const {
    return segment_ == nullptr ? std::span<std::byte>() : segment_->memory();
  }
  /// Whether what is mapped is no longer the client's memory: UcxSegment::was_cut.
  bool was_cut() const { return segment_ != nullptr && segment_->was_cut(); }
  /// REQUIRES: mapped() is empty.
  ucp_rkey_h key() const { return key_; }

 private:
  UcxRemoteLanding(const UcxPeerMemory& memory, std::unique_ptr<UcxSegment> segment, ucp_rkey_h key)
      : memory_(memory), segment_(std::move(segment)), key_(key) {}

  const UcxPeerMemory memory_;
  const std::unique_ptr<UcxSegment> segment_;  ///< Null where UCX writes,
  const ucp_rkey_h key_;                       ///< and this where it does not.
};

}  // namespace quire

#endif  // QUIRE_COMMON_TRANSPORT_UCX_LANDING_H_
