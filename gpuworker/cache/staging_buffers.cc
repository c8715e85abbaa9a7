// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/cache/staging_buffers.h"

#include <algorithm>
#include <cstring>

#include "common/base/memory/payload_cutter.h"
#include "gpuworker/cache/spread_units.h"
#include "quire/layout.h"

namespace quire::worker {
namespace {

/// Bytes of a list of `count` places, rounded up so that the units behind it are aligned.
size_t ListBytes(size_t count) {
  constexpr size_t kAlignment = 64;
  return (count * sizeof(kernels::UnitPlacement) + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

StagingBuffers::StagingBuffers(const KvSpec& spec, const Options& options, Device* device)
    : spec_(spec), units_(options.units), device_(device), buffers_(options.buffers) {
  for (Buffer& buffer : buffers_) idle_.push_back(&buffer);
}

StatusOr<std::unique_ptr<StagingBuffers>> StagingBuffers::Create(const KvSpec& spec,
                                                                 const Options& options,
                                                                 Device* device) {
  auto staging = std::unique_ptr<StagingBuffers>(new StagingBuffers(spec, options, device));
  for (Buffer& buffer : staging->buffers_) QUIRE_RETURN_IF_ERROR(staging->Allocate(&buffer));
  return staging;
}

Status StagingBuffers::Allocate(Buffer* buffer) {
  const size_t bytes = ListBytes(units_) + units_ * UnitBytes(spec_);
  QUIRE_ASSIGN_OR_RETURN(buffer->arrived, device_->MakeEvent());
  QUIRE_ASSIGN_OR_RETURN(buffer->free, device_->MakeEvent());
  QUIRE_ASSIGN_OR_RETURN(buffer->host, device_->AllocatePinned(bytes));
  QUIRE_ASSIGN_OR_RETURN(buffer->device, device_->Allocate(bytes));
  // It is zeroed on the compute stream: nothing comes before that.
  QUIRE_RETURN_IF_ERROR(buffer->arrived->Record(DeviceStream::kCompute));
  return buffer->arrived->Hold(DeviceStream::kCopy);
}

StagingBuffers::~StagingBuffers() {
  // When the device has failed, nothing runs any more.
  for (const Buffer& buffer : buffers_) {
    if (buffer.free != nullptr) (void)buffer.free->Await();
  }
}

Status StagingBuffers::Write(const Payload& units, UnitCodec codec,
                             std::span<const kernels::UnitPlacement> places,
                             const SlotPools& pools) {
  const uint64_t unit_bytes = UnitBytes(spec_, codec);
  if (units.size_bytes() != places.size() * unit_bytes || unit_bytes > UnitBytes(spec_)) {
    return DataLoss("a payload of ", units.size_bytes(), " bytes for ", places.size(), " units of ",
                    unit_bytes, " bytes");
  }
  PayloadCutter cutter(units);
  while (!places.empty()) {
    const auto part = places.first(std::min<size_t>(units_, places.size()));
    Buffer* const buffer = Take();
    const Status written =
        WriteBy(*buffer, cutter.Cut(part.size() * unit_bytes), codec, part, pools);
    PutBack(buffer);
    QUIRE_RETURN_IF_ERROR(written);
    places = places.subspan(part.size());
  }
  return OkStatus();
}

StagingBuffers::Buffer* StagingBuffers::Take() {
  MutexLock lock(mutex_);
  while (idle_.empty()) put_back_.Wait(mutex_);
  Buffer* const buffer = idle_.front();
  idle_.pop_front();
  return buffer;
}

void StagingBuffers::PutBack(Buffer* buffer) {
  MutexLock lock(mutex_);
  idle_.push_back(buffer);
  put_back_.NotifyOne();
}

Status StagingBuffers::WriteBy(Buffer& buffer, const Payload& units, UnitCodec codec,
                               std::span<const kernels::UnitPlacement> places,
                               const SlotPools& pools) {
  QUIRE_RETURN_IF_ERROR(buffer.free->Await());
  const size_t list_bytes = ListBytes(places.size());
  std::memcpy(buffer.host.get(), places.data(), places.size_bytes());
  units.CopyTo(buffer.host.get() + list_bytes);
  QUIRE_RETURN_IF_ERROR(device_->CopyPinned(DeviceStream::kCopy, buffer.device.data(),
                                            buffer.host.get(), list_bytes + units.size_bytes()));
  if (const Status converts = Convert(buffer, codec, places.size(), pools); !converts.ok()) {
    (void)buffer.free->Record(DeviceStream::kCopy);  // The copy is all that reads the buffer.
    return converts;
  }
  QUIRE_RETURN_IF_ERROR(buffer.free->Record(DeviceStream::kConvert));
  return pools.written->Record(DeviceStream::kConvert);
}

Status StagingBuffers::Convert(Buffer& buffer, UnitCodec codec, size_t count,
                               const SlotPools& pools) {
  QUIRE_RETURN_IF_ERROR(buffer.arrived->Record(DeviceStream::kCopy));
  QUIRE_RETURN_IF_ERROR(buffer.arrived->Hold(DeviceStream::kConvert));
  QUIRE_RETURN_IF_ERROR(pools.unread->Hold(DeviceStream::kConvert));
  return SpreadUnits(spec_,
                     {.units = buffer.device.as<std::byte>() + ListBytes(count),
                      .places = buffer.device.as<kernels::UnitPlacement>(),
                      .count = count,
                      .codec = codec,
                      .k_pool = pools.k,
                      .v_pool = pools.v,
                      .num_slots = pools.num_slots,
                      .stream = device_->convert_stream()},
                     *device_);
}

}  // namespace quire::worker
