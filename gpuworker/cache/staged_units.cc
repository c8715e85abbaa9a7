// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/cache/staged_units.h"

#include <utility>

#include "quire/layout.h"

namespace quire::worker {
namespace {

/// True when kernels may read the units where the payload has them.
bool ReadableInPlace(const Payload& payload, uint64_t unit_bytes, size_t alignment,
                     const Device& device) {
  if (!device.reads_host_memory()) return false;
  for (const Slice& slice : payload.slices()) {
    const auto address = reinterpret_cast<uintptr_t>(slice.bytes.data());
    if (slice.bytes.size() % unit_bytes != 0) return false;
    if (address % alignment != 0) return false;
  }
  return true;
}

}  // namespace

StatusOr<StagedUnits> StagedUnits::Stage(const Payload& payload, size_t count, const KvSpec& spec,
                                         UnitCodec codec, Device* device) {
  const uint64_t unit_bytes = UnitBytes(spec, codec);
  const size_t alignment = codec == UnitCodec::kRaw ? ElementBytes(spec.dtype) : 1;
  if (payload.size_bytes() != count * unit_bytes) {
    return DataLoss("a payload of ", payload.size_bytes(), " bytes for ", count, " units of ",
                    unit_bytes, " bytes");
  }
  StagedUnits staged;
  staged.units_.reserve(count);
  const auto add = [&](const std::byte* bytes, size_t size) {
    for (size_t at = 0; at < size; at += unit_bytes) staged.units_.push_back(bytes + at);
  };
  if (ReadableInPlace(payload, unit_bytes, alignment, *device)) {
    staged.payload_ = payload;
    for (const Slice& slice : payload.slices()) add(slice.bytes.data(), slice.bytes.size());
    QUIRE_RETURN_IF_ERROR(staged.PutList(device));
    return staged;
  }
  QUIRE_ASSIGN_OR_RETURN(staged.copy_, device->Allocate(payload.size_bytes()));
  size_t at = 0;
  for (const Slice& slice : payload.slices()) {
    QUIRE_RETURN_IF_ERROR(device->CopyToDevice(staged.copy_.as<std::byte>() + at,
                                               slice.bytes.data(), slice.bytes.size()));
    at += slice.bytes.size();
  }
  add(staged.copy_.as<std::byte>(), payload.size_bytes());
  QUIRE_RETURN_IF_ERROR(staged.PutList(device));
  return staged;
}

Status StagedUnits::PutList(Device* device) {
  QUIRE_ASSIGN_OR_RETURN(addresses_, list_.Put(*device, std::span<const void* const>(units_)));
  return OkStatus();
}

}  // namespace quire::worker
