// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/engine/reuse/unit_addresses.h"

#include "common/base/memory/payload_cutter.h"

namespace quire::worker {

StatusOr<const void* const*> UnitAddresses::Put(Device& device, const Payload& units,
                                                std::span<const uint64_t> unit_bytes,
                                                std::span<const size_t> wanted) {
  const bool in_place = device.reads_host_memory();
  const size_t bytes = units.size_bytes();
  if (!in_place && copies_on_device_.size_bytes() < bytes) {
    QUIRE_ASSIGN_OR_RETURN(copies_on_device_, device.Allocate(bytes));
  }
  units_.clear();
  PayloadCutter cutter(units);
  size_t at = 0;
  for (size_t i = 0; i < unit_bytes.size(); at += unit_bytes[i++]) {
    const Payload unit = cutter.Cut(unit_bytes[i]);
    if (in_place && unit.slices().size() == 1) {
      units_.push_back(unit.slices().front().bytes.data());
      continue;
    }
    if (copies_.size() < bytes) copies_.resize(bytes);  // At once, so that addresses stay.
    unit.CopyTo(copies_.data() + at);
    units_.push_back((in_place ? copies_.data() : copies_on_device_.as<std::byte>()) + at);
  }
  if (!in_place) {
    QUIRE_RETURN_IF_ERROR(device.CopyToDevice(copies_on_device_.data(), copies_.data(), bytes));
  }
  addresses_.clear();
  for (const size_t unit : wanted) addresses_.push_back(units_[unit]);
  return addresses_on_device_.Put(device, std::span<const void* const>(addresses_));
}

}  // namespace quire::worker
