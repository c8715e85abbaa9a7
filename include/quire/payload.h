// SPDX-License-Identifier: Apache-2.0
//
// Payload: bulk bytes as a list of slices, each kept alive by its owner. Units travel from a tier
// to a transport in payloads, without copies. Ownership: a slice's bytes are valid while a copy of
// its `owner` lives. Lent bytes are valid only while their lease lasts (payload_lease.h). Code that
// takes slices out of a payload takes its leases along. Thread-safety: a value type.
#ifndef QUIRE_PAYLOAD_H_
#define QUIRE_PAYLOAD_H_

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "quire/clock.h"
#include "quire/payload_lease.h"

namespace quire {

struct Slice {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void>
      owner;  ///< Null for bytes that outlive every use (the caller's, in a blocking call).
};

class Payload {
 public:
  Payload() = default;

  /// Reserves room for `slices` slices.
  void Reserve(size_t slices) { slices_.reserve(slices); }
  void Append(Slice slice) {
    size_bytes_ += slice.bytes.size();
    if (!slice.bytes.empty()) slices_.push_back(std::move(slice));
  }
  /// Takes ownership of `buffer`.
  void Append(std::vector<std::byte> buffer) {
    auto owner = std::make_shared<const std::vector<std::byte>>(std::move(buffer));
    const std::span<const std::byte> bytes(*owner);
    Append(Slice{bytes, std::move(owner)});
  }

  /// Appends all slices and leases of `other`.
  void Append(const Payload& other) {
    for (const Slice& slice : other.slices_) Append(slice);
    AddLeases(other);
  }
  /// Adds the lease of a lender of some slices.
  void AddLease(std::shared_ptr<PayloadLease> lease) { leases_.push_back(std::move(lease)); }
  /// Adds the leases of `other`, whose slices were taken.
  void AddLeases(const Payload& other) {
    leases_.insert(leases_.end(), other.leases_.begin(), other.leases_.end());
  }
  const std::vector<std::shared_ptr<PayloadLease>>& leases() const { return leases_; }
  /// True when every lease is still good (PayloadLease::IsValid).
  bool IsValid() const {
    return std::all_of(leases_.begin(), leases_.end(),
                       [](const auto& lease) { return lease->IsValid(); });
  }

  /// The end of the shortest lease when all begin at `from`; TimePoint::max() without a lease.
  TimePoint LentUntil(TimePoint from) const {
    TimePoint until = TimePoint::max();
    for (const auto& lease : leases_) {
      if (lease->duration() < until - from) until = from + lease->duration();
    }
    return until;
  }

  size_t size_bytes() const { return size_bytes_; }
  bool empty() const { return size_bytes_ == 0; }
  const std::vector<Slice>& slices() const { return slices_; }
  /// Moves the slices out.
  std::vector<Slice> TakeSlices() && {
    size_bytes_ = 0;
    return std::exchange(slices_, {});
  }

  /// Copies everything to `out`, which has room for size_bytes().
  void CopyTo(std::byte* out) const {
    for (const Slice& slice : slices_) {
      std::memcpy(out, slice.bytes.data(), slice.bytes.size());
      out += slice.bytes.size();
    }
  }
  /// The whole payload as one slice: the slice itself when there is only one, otherwise a copy.
  Slice Flatten() const {
    if (slices_.size() == 1) return slices_.front();
    // Not zeroed first, as a vector would be.
    std::shared_ptr<std::byte[]> whole(new std::byte[size_bytes_]);
    CopyTo(whole.get());
    const std::span<const std::byte> bytes(whole.get(), size_bytes_);
    return Slice{bytes, std::move(whole)};
  }

 private:
  std::vector<Slice> slices_;
  std::vector<std::shared_ptr<PayloadLease>> leases_;  ///< One for each message received; few.
  size_t size_bytes_ = 0;
};

}  // namespace quire

#endif  // QUIRE_PAYLOAD_H_
