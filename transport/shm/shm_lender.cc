// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/shm_lender.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

namespace quire {
namespace {

constexpr uint16_t kCopyOutRegion = kMaxShmRegions;

ShmOutgoing Announcement(ShmPacketType type, uint16_t number, uint64_t bytes, int fd,
                         std::shared_ptr<const void> owner) {
  ShmOutgoing packet{.bytes = {}, .fd = fd, .fd_owner = std::move(owner)};
  AppendShmPacket({.type = type, .number = number, .bytes = bytes}, {}, {}, {}, &packet.bytes);
  return packet;
}

/// At least 1.
uint64_t MicrosOf(Duration duration) {
  const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(duration).count();
  return static_cast<uint64_t>(std::max<int64_t>(micros, 1));
}

}  // namespace

ShmLender::ShmLender(ShmLoop* loop, std::shared_ptr<ShmStream> stream,
                     std::shared_ptr<const ShmRegions> regions, std::shared_ptr<ShmUse> use,
                     const Options& options)
    : loop_(loop),
      stream_(std::move(stream)),
      regions_(std::move(regions)),
      use_(std::move(use)),
      options_(options),
      copy_out_(std::make_shared<ShmCopyOut>(options.copy_out_bytes)),
      region_needs_(regions_->all().size() + 1) {
  for (const ShmRegions::Region& region : regions_->all()) {
    region_needs_[region.number] = stream_->AddPrelude(Announcement(
        ShmPacketType::kRegion, region.number, region.bytes.size(), region.fd.get(), regions_));
  }
}

ShmLender::Lent ShmLender::Lend(Payload payload) {
  Lent lent;
  lent.in_place_bytes = Locate(payload, &lent);
  if (lent.in_place_bytes > 0 && !Reserve(lent.in_place_bytes, &lent)) {
    for (ShmDescriptor& slice : lent.slices) {
      slice = {.offset = 0, .bytes = slice.bytes, .region = ShmDescriptor::kInline};
    }
    lent.needs = 0;
    lent.in_place_bytes = 0;
  }
  lent.copied_bytes = payload.size_bytes() - lent.in_place_bytes;
  ShmLeases::Lease lease;
  if (lent.lease != 0 && lent.copied_bytes == 0) {
    lease.payload = std::move(payload);
  } else {
    Payload others;
    for (size_t i = 0; i < lent.slices.size(); ++i) {
      const bool in_place = lent.slices[i].region != ShmDescriptor::kInline;
      (in_place ? lease.payload : others).Append(payload.slices()[i]);
    }
    lease.copies = Copy(others, &lent);
    if (lease.copies.empty()) lent.inline_payload = std::move(others);
  }
  if (lent.lease != 0) lent.leases->Fill(lent.lease, std::move(lease));
  return lent;
}

/// Describes every slice as in place if possible, inline otherwise. Returns the bytes in place.
uint64_t ShmLender::Locate(const Payload& payload, Lent* lent) const {
  uint64_t in_place_bytes = 0;
  lent->slices.reserve(payload.slices().size());
  for (const Slice& slice : payload.slices()) {
    ShmDescriptor& descriptor = lent->slices.emplace_back();
    descriptor.bytes = static_cast<uint32_t>(slice.bytes.size());
    // Without an owner the bytes may change before the client has read them.
    const ShmRegions::Region* const region =
        slice.owner == nullptr ? nullptr : regions_->Find(slice.bytes);
    if (region == nullptr) continue;
    descriptor.offset = static_cast<uint64_t>(slice.bytes.data() - region->bytes.data());
    descriptor.region = region->number;
    lent->needs |= region_needs_[region->number];
    in_place_bytes += slice.bytes.size();
  }
  return in_place_bytes;
}

bool ShmLender::Reserve(uint64_t bytes, Lent* lent) {
  uint64_t needs = 0;
  lent->leases = Channel(&needs);
  if (lent->leases != nullptr) lent->lease = lent->leases->Reserve(bytes);
  if (lent->lease == 0) return false;
  lent->needs |= needs;
  return true;
}

/// Copies the payload out and describes the copies. Returns an empty block if it goes inline.
ShmCopyOut::Block ShmLender::Copy(const Payload& payload, Lent* lent) {
  if (payload.size_bytes() <= kSmallBytes) return {};
  ShmCopyOut::Block block = copy_out_->Allocate(payload.size_bytes());
  if (block.empty() || (lent->lease == 0 && !Reserve(0, lent))) return {};
  payload.CopyTo(block.bytes().data());
  lent->needs |= CopyOutPrelude();
  uint64_t offset = block.offset();
  for (ShmDescriptor& slice : lent->slices) {
    if (slice.region != ShmDescriptor::kInline) continue;
    slice.offset = offset;
    slice.region = kCopyOutRegion;
    offset += slice.bytes;
  }
  return block;
}

std::shared_ptr<ShmLeases> ShmLender::Channel(uint64_t* needs) {
  MutexLock lock(mutex_);
  if (!std::exchange(opened_, true)) {
    UniqueFd client_end;
    auto fail = [stream = std::weak_ptr(stream_)](const Status& why) {
      if (const auto open = stream.lock()) open->Fail(why);
    };
    StatusOr<std::shared_ptr<ShmLeases>> leases =
        ShmLeases::Open(loop_, options_.leases, use_, std::move(fail), &client_end);
    if (leases.ok()) {
      leases_ = *std::move(leases);
      auto owner = std::make_shared<const UniqueFd>(std::move(client_end));
      channel_needs_ = stream_->AddPrelude(Announcement(
          ShmPacketType::kLeaseChannel, 0, MicrosOf(options_.leases.max_age), owner->get(), owner));
    }
  }
  *needs |= channel_needs_;
  return leases_;
}

uint64_t ShmLender::CopyOutPrelude() {
  MutexLock lock(mutex_);
  if (copy_out_needs_ == 0) {
    const SharedMemoryView view = copy_out_->view();
    copy_out_needs_ = stream_->AddPrelude(Announcement(ShmPacketType::kRegion, kCopyOutRegion,
                                                       view.bytes.size(), view.fd, copy_out_));
  }
  return copy_out_needs_;
}

void ShmLender::CountSent(const Lent& lent) {
  use_->lent_bytes += lent.in_place_bytes;
  use_->copied_bytes += lent.copied_bytes;
}

void ShmLender::ReleaseUnsent(const Lent& lent) {
  if (lent.lease != 0) lent.leases->Drop(lent.lease);
}

void ShmLender::Orphan() {
  std::shared_ptr<ShmLeases> leases;
  {
    MutexLock lock(mutex_);
    opened_ = true;
    leases.swap(leases_);
  }
  if (leases != nullptr) leases->Orphan();
}

}  // namespace quire
