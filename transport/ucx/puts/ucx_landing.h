// SPDX-License-Identifier: Apache-2.0
//
// The two ends of a landing: UcxLocalLanding is memory of the client; UcxRemoteLanding is the
// server's access to it. Thread-safety: for their worker's thread only.
#ifndef QUIRE_TRANSPORT_UCX_PUTS_UCX_LANDING_H_
#define QUIRE_TRANSPORT_UCX_PUTS_UCX_LANDING_H_

#include <ucp/api/ucp.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "quire/status.h"
#include "transport/ucx/ucx_context.h"
#include "transport/ucx/ucx_endpoint.h"
#include "transport/ucx/ucx_wire.h"

namespace quire {

/// Memory registered with UCX. Ownership: owns the registration, and the memory if UCX allocated
/// it.
class UcxMemory {
 public:
  static StatusOr<std::shared_ptr<UcxMemory>> Map(std::shared_ptr<UcxContext> context,
                                                  std::span<std::byte> memory);
  /// Allocates memory by UCX. Only such memory can be written by shared-memory lanes without the
  /// help of this process.
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
  /// The key that a peer needs to write there.
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
  UcxLocalLanding(std::span<std::byte> bytes, uint64_t serial,
                  std::shared_ptr<UcxMemory> registered)
      : bytes_(bytes), serial_(serial), registered_(std::move(registered)) {}

  std::span<std::byte> bytes() const { return bytes_; }
  uint64_t serial() const { return serial_; }
  bool is_direct() const { return registered_ != nullptr; }
  /// The key to send to the server. `written` false makes a key that states that the server sends
  /// messages instead.
  StatusOr<std::string> Key(uint64_t id, const UcxSecret& secret, bool written) const;
  /// Copies a payload to its places. INVALID_ARGUMENT, with nothing copied, when a place is out of
  /// range.
  Status Place(std::span<const UcxPlace> places, std::span<const std::byte> payload);

 private:
  const std::span<std::byte> bytes_;
  const uint64_t serial_;
  const std::shared_ptr<UcxMemory> registered_;
};

/// A landing that this end's UCX writes to.
class UcxRemoteLanding {
 public:
  /// INVALID_ARGUMENT for a key that UCX refuses. UCX trusts what it unpacks: REQUIRES a key of a
  /// trusted client with a verified signature.
  static StatusOr<std::shared_ptr<UcxRemoteLanding>> Open(UcxEndpoint& endpoint,
                                                          const UcxLandingKey& key);
  ~UcxRemoteLanding();
  UcxRemoteLanding(const UcxRemoteLanding&) = delete;
  UcxRemoteLanding& operator=(const UcxRemoteLanding&) = delete;

  bool Holds(const UcxPlace& place) const {
    return place.bytes <= bytes_ && place.offset <= bytes_ - place.bytes;
  }
  uint64_t AddressOf(uint64_t offset) const { return address_ + offset; }
  ucp_rkey_h key() const { return key_; }

 private:
  UcxRemoteLanding(uint64_t address, uint64_t bytes, ucp_rkey_h key)
      : address_(address), bytes_(bytes), key_(key) {}

  const uint64_t address_;  ///< Address in the client's process.
  const uint64_t bytes_;
  const ucp_rkey_h key_;
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_UCX_PUTS_UCX_LANDING_H_
