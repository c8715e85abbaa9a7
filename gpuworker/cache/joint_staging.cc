// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/cache/joint_staging.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/memory/payload_cutter.h"
#include "quire/layout.h"

namespace quire::worker {
namespace {

constexpr size_t kFirstCapacity = 64;  ///< Units of the first buffers.
/// Bytes of a buffer that does not grow any more, and of all buffers when no more are made.
constexpr size_t kMostBufferBytes = size_t{32} << 20;
constexpr size_t kMostBytes = size_t{128} << 20;

}  // namespace

JointStaging::JointStaging(const KvSpec& spec, Device* device)
    : spec_(spec),
      device_(device),
      // One launch for each layer of a step, and a few for the next one's first layers.
      most_buffers_(size_t{spec.num_layers} + 4),
      capacity_(kFirstCapacity) {}

StatusOr<std::unique_ptr<JointStaging>> JointStaging::Create(const KvSpec& spec, Device* device) {
  auto staging = std::unique_ptr<JointStaging>(new JointStaging(spec, device));
  QUIRE_ASSIGN_OR_RETURN(staging->written_, device->MakeEvent());
  return staging;
}

JointStaging::~JointStaging() {
  MutexLock lock(mutex_);
  // When the device has failed, nothing runs any more.
  for (const auto& buffer : launched_) (void)buffer->free->Await();
}

size_t JointStaging::BytesOf(size_t units) const {
  return units * (UnitBytes(spec_) + sizeof(kernels::UnitAddress));
}

Status JointStaging::Write(const Payload& units, std::span<const kernels::UnitAddress> places,
                           DeviceEvent* unread) {
  const uint64_t unit_bytes = UnitBytes(spec_);
  if (units.size_bytes() != places.size() * unit_bytes) {
    return DataLoss("a payload of ", units.size_bytes(), " bytes for ", places.size(), " units of ",
                    unit_bytes, " bytes");
  }
  PayloadCutter cutter(units);
  MutexLock lock(mutex_);
  for (const kernels::UnitAddress& place : places) {
    QUIRE_RETURN_IF_ERROR(ReserveRoom());
    Buffer& buffer = *filling_;
    // A slot may get another page before anything has read the first. Units of a launch have no
    // order, so the later one takes the place of the earlier.
    const auto [at, is_new] = buffer.index.try_emplace(place.k, buffer.places.size());
    if (is_new) buffer.places.push_back(place);
    cutter.Cut(unit_bytes).CopyTo(buffer.host.get() + at->second * unit_bytes);
    if (std::ranges::find(buffer.unread, unread) == buffer.unread.end()) {
      buffer.unread.push_back(unread);
    }
  }
  return OkStatus();
}

Status JointStaging::ReserveRoom() {
  if (filling_ != nullptr && filling_->places.size() == filling_->capacity) {
    if (BytesOf(2 * capacity_) <= kMostBufferBytes) capacity_ *= 2;
    QUIRE_RETURN_IF_ERROR(LaunchFilling());
  }
  if (filling_ != nullptr) return OkStatus();
  QUIRE_ASSIGN_OR_RETURN(filling_, TakeBuffer());
  return OkStatus();
}

StatusOr<std::unique_ptr<JointStaging::Buffer>> JointStaging::TakeBuffer() {
  std::unique_ptr<Buffer> buffer;
  if (!launched_.empty() && (launched_.size() >= most_buffers_ || bytes_ >= kMostBytes)) {
    QUIRE_RETURN_IF_ERROR(launched_.front()->free->Await());
    buffer = std::move(launched_.front());
    launched_.pop_front();
  } else {
    buffer = std::make_unique<Buffer>();
    QUIRE_ASSIGN_OR_RETURN(buffer->arrived, device_->MakeEvent());
    QUIRE_ASSIGN_OR_RETURN(buffer->free, device_->MakeEvent());
  }
  if (buffer->capacity < capacity_) QUIRE_RETURN_IF_ERROR(Enlarge(buffer.get()));
  return buffer;
}

Status JointStaging::Enlarge(Buffer* buffer) {
  bytes_ -= BytesOf(buffer->capacity);
  const size_t bytes = BytesOf(capacity_);
  buffer->capacity = 0;
  QUIRE_ASSIGN_OR_RETURN(buffer->host, device_->AllocatePinned(bytes));
  QUIRE_ASSIGN_OR_RETURN(buffer->device, device_->Allocate(bytes));
  buffer->capacity = capacity_;
  bytes_ += bytes;
  // It is zeroed on the compute stream: nothing comes before that.
  QUIRE_RETURN_IF_ERROR(buffer->arrived->Record(DeviceStream::kCompute));
  return buffer->arrived->Hold(DeviceStream::kCopy);
}

Status JointStaging::Launch() {
  MutexLock lock(mutex_);
  return filling_ == nullptr ? OkStatus() : LaunchFilling();
}

Status JointStaging::LaunchFilling() {
  launched_.push_back(std::move(filling_));
  Buffer& buffer = *launched_.back();
  const size_t unit_bytes = buffer.places.size() * UnitBytes(spec_);
  const size_t list_bytes = buffer.places.size() * sizeof(kernels::UnitAddress);
  std::memcpy(buffer.host.get() + unit_bytes, buffer.places.data(), list_bytes);
  Status status = device_->CopyPinned(DeviceStream::kCopy, buffer.device.data(), buffer.host.get(),
                                      unit_bytes + list_bytes);
  if (status.ok()) {
    status = Convert(buffer);
    if (!status.ok()) (void)buffer.free->Record(DeviceStream::kCopy);  // Nothing else reads it.
  }
  buffer.places.clear();
  buffer.index.clear();
  buffer.unread.clear();
  return status;
}

Status JointStaging::Convert(Buffer& buffer) {
  QUIRE_RETURN_IF_ERROR(buffer.arrived->Record(DeviceStream::kCopy));
  QUIRE_RETURN_IF_ERROR(buffer.arrived->Hold(DeviceStream::kConvert));
  for (DeviceEvent* const unread : buffer.unread) {
    QUIRE_RETURN_IF_ERROR(unread->Hold(DeviceStream::kConvert));
  }
  const auto* const units = buffer.device.as<const std::byte>();
  const auto count = static_cast<int64_t>(buffer.places.size());
  QUIRE_RETURN_IF_ERROR(ToStatus(
      device_->kernels().hnd_to_nhd({.units = units,
                                     .num_slots = 1,
                                     .n_units = count,
                                     .page_tokens = spec_.page_tokens,
                                     .n_kv = spec_.num_kv_heads,
                                     .head_dim = spec_.head_dim,
                                     .dtype = spec_.dtype,
                                     .addresses = reinterpret_cast<const kernels::UnitAddress*>(
                                         units + buffer.places.size() * UnitBytes(spec_)),
                                     .stream = device_->convert_stream()}),
      "hnd_to_nhd"));
  QUIRE_RETURN_IF_ERROR(buffer.free->Record(DeviceStream::kConvert));
  return written_->Record(DeviceStream::kConvert);
}

}  // namespace quire::worker
