// SPDX-License-Identifier: Apache-2.0
#include "python/native/slots.h"

#include <algorithm>
#include <string>

#include "python/native/errors.h"
#include "python/native/payload_reader.h"
#include "python/native/session.h"
#include "python/native/units.h"

namespace quire::python {
namespace {

namespace nb = nanobind;

Status NoArray(uint32_t sequence) {
  return InvalidArgument("into: there is no array for sequence ", sequence);
}

}  // namespace

SlotArrays::SlotArrays(nb::handle arrays, const SessionCore& core)
    : layers_(core.layers()),
      num_heads_(core.spec().num_kv_heads),
      unit_bytes_(core.form().BytesIn(UnitCodec::kRaw)) {
  nb::list all;
  if (PyList_Check(arrays.ptr()) != 0 || PyTuple_Check(arrays.ptr()) != 0) {
    all = nb::list(arrays);
  } else {
    all.append(arrays);
  }
  for (uint32_t sequence = 0; sequence < all.size(); ++sequence) {
    arrays_.emplace_back();
    slots_.push_back(0);
    const nb::object array = all[sequence];
    if (array.is_none()) continue;
    slots_.back() = core.SlotsOf(sequence);
    std::vector<int64_t> shape = {static_cast<int64_t>(layers_.size()),
                                  static_cast<int64_t>(num_heads_),
                                  static_cast<int64_t>(slots_.back())};
    const std::vector<int64_t> unit = UnitShapeOf(core.spec(), core.options().part);
    shape.insert(shape.end(), unit.begin(), unit.end());
    arrays_.back().emplace(array, "into", HostArray::Use::kWrite);
    arrays_.back()->CheckIs(core.spec().dtype, shape);
  }
}

bool SlotArrays::Has(uint32_t sequence) const {
  return sequence < arrays_.size() && arrays_[sequence].has_value();
}

void SlotArrays::CheckHas(uint32_t sequence) const {
  if (!Has(sequence)) throw StatusError(NoArray(sequence));
}

Status SlotArrays::Check(const RecallPart& part) const {
  if (!part.codecs.empty()) {
    return InvalidArgument("units came encoded: open the session without codecs");
  }
  for (const RecalledLane& lane : part.lanes) {
    if (!Has(lane.sequence)) return NoArray(lane.sequence);
  }
  const size_t sent = part.placements.size() - part.held.size();
  if (part.payload.size_bytes() != sent * unit_bytes_) {
    return DataLoss(part.payload.size_bytes(), " bytes came for ", sent, " units");
  }
  return OkStatus();
}

std::byte* SlotArrays::PlaceOf(const Placement& placement) {
  const auto layer = std::lower_bound(layers_.begin(), layers_.end(), placement.layer);
  const uint64_t row = static_cast<uint64_t>(layer - layers_.begin()) * num_heads_ + placement.head;
  const uint64_t place = row * slots_[placement.sequence] + placement.slot;
  return arrays_[placement.sequence]->writable().data() + place * unit_bytes_;
}

Status SlotArrays::Take(const RecallPart& part) {
  QUIRE_RETURN_IF_ERROR(Check(part));
  PayloadReader reader(part.payload);
  auto held = part.held.begin();
  for (size_t i = 0; i < part.placements.size(); ++i) {
    if (held != part.held.end() && *held == i) {
      ++held;
      continue;
    }
    reader.Read(unit_bytes_, PlaceOf(part.placements[i]));
  }
  if (!part.IsValid()) return Unavailable("the units were held for too long; recall them again");
  return OkStatus();
}

}  // namespace quire::python
