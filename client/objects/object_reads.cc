// SPDX-License-Identifier: Apache-2.0
#include "client/objects/object_reads.h"

#include <algorithm>
#include <utility>

#include "client/reply.h"
#include "client/validate.h"
#include "common/base/memory/payload_cutter.h"
#include "common/base/memory/unit_copy.h"
#include "common/wire/limits.h"

namespace quire::internal {
namespace {

uint64_t EndOf(const ObjectReads::Read& read, uint64_t object_bytes) {
  const uint64_t rest = object_bytes - read.offset;
  const uint64_t wanted = read.to.empty() ? read.bytes : read.to.size();
  return read.offset + (wanted == 0 ? rest : std::min(rest, wanted));
}

}  // namespace

bool ObjectReads::Next(v1::GetObjectsRequest* request) {
  request->Clear();
  asked_.clear();
  for (size_t i = 0; i < reads_.size() && asked_.size() < wire::kMaxObjectsOfCall; ++i) {
    const Read& read = reads_[i];
    if (read.done) continue;
    v1::ObjectRange* const range = request->add_ranges();
    range->set_key(std::string(read.key));
    range->set_offset(read.offset + read.taken);
    const uint64_t wanted = read.to.empty() ? read.bytes : read.to.size();
    range->set_bytes(wanted == 0 ? 0 : wanted - read.taken);
    asked_.push_back(i);
  }
  for (const Mismatch& mismatch : mismatches_) {
    v1::MismatchedObjectUnit* const unit = request->add_mismatched();
    unit->set_key(std::string(mismatch.key));
    unit->set_unit(mismatch.unit);
    unit->set_crc32c(mismatch.crc32c);
  }
  mismatches_.clear();
  return !asked_.empty();
}

Status ObjectReads::Take(const v1::GetObjectsReply& reply, const Payload& payload) {
  const auto objects = static_cast<size_t>(reply.objects_size());
  if (objects == 0 || objects > asked_.size()) {
    return BadReply(kMethod, objects, " objects for ", asked_.size(), " ranges");
  }
  // A loan that has ended meanwhile takes back what the reply adds.
  std::vector<Read> before;
  for (size_t i = 0; i < objects; ++i) before.push_back(reads_[asked_[i]]);
  PayloadCutter cutter(payload);
  uint64_t left = payload.size_bytes();
  for (size_t i = 0; i < objects; ++i) {
    const v1::ObjectUnits& units = reply.objects(static_cast<int>(i));
    Read& read = reads_[asked_[i]];
    if (units.size_bytes() == 0) {
      if (units.unit_crc32c_size() != 0) return BadReply(kMethod, "units of no object");
      read = {.key = read.key, .offset = read.offset, .bytes = read.bytes, .to = read.to};
      read.done = true;
      continue;
    }
    if (units.size_bytes() > kMaxObjectBytes) {
      return BadReply(kMethod, "an object of ", units.size_bytes(), " bytes");
    }
    const ObjectShape shape = ObjectShape::Of(units.size_bytes());
    const uint64_t bytes = uint64_t{shape.unit_bytes} * units.unit_crc32c_size();
    if (units.unit_crc32c_size() == 0 || bytes > left) {
      return BadReply(kMethod, "a payload of ", payload.size_bytes(), " bytes is not its units'");
    }
    left -= bytes;
    const Payload of_object = cutter.Cut(bytes);
    QUIRE_RETURN_IF_ERROR(TakeUnits(read, units, of_object));
    if (read.to.empty()) read.kept.AddLeases(payload);
  }
  if (left != 0) return BadReply(kMethod, left, " bytes after the last unit");
  if (mismatches_.empty() && payload.IsValid()) {
    failures_ = 0;
    return OkStatus();
  }
  if (!payload.IsValid()) {
    mismatches_.clear();
    for (size_t i = 0; i < objects; ++i) reads_[asked_[i]] = std::move(before[i]);
  }
  if (++failures_ <= kMaxRechecks) return OkStatus();
  return DataLoss("units of objects came damaged, or their loan ended, ", failures_,
                  " times in a row: check the network and this machine's memory");
}

Status ObjectReads::TakeUnits(Read& read, const v1::ObjectUnits& units, const Payload& payload) {
  const ObjectShape shape = ObjectShape::Of(units.size_bytes());
  if (read.incarnation != 0 && read.incarnation != units.incarnation()) {
    // Another object now: its bytes are asked for from the start.
    read = {.key = read.key, .offset = read.offset, .bytes = read.bytes, .to = read.to};
    return OkStatus();
  }
  const uint64_t at = read.offset + read.taken;
  const uint64_t first = uint64_t{units.first_unit()} * shape.unit_bytes;
  if (at >= units.size_bytes() || first > at || at - first >= shape.unit_bytes) {
    return BadReply(kMethod, "unit ", units.first_unit(), " does not have the offset ", at);
  }
  const uint64_t end = std::min(EndOf(read, units.size_bytes()), first + payload.size_bytes());
  const Part part{.units = units, .payload = payload, .skip = at - first, .bytes = end - at};
  if (!(read.to.empty() ? Keep(read, part) : Copy(read, part))) return OkStatus();
  read.object_bytes = units.size_bytes();
  read.incarnation = units.incarnation();
  read.taken += end - at;
  read.done = end == EndOf(read, units.size_bytes());
  return OkStatus();
}

bool ObjectReads::Keep(Read& read, const Part& part) {
  const v1::ObjectUnits& units = part.units;
  const std::span<const uint32_t> checksums(units.unit_crc32c().data(),
                                            static_cast<size_t>(units.unit_crc32c_size()));
  const ObjectShape shape = ObjectShape::Of(units.size_bytes());
  const auto mismatches = FindMismatches(part.payload, shape.unit_bytes, checksums);
  for (const UnitMismatch& mismatch : mismatches) {
    NoteMismatch(read, units.first_unit() + mismatch.unit, mismatch.crc32c);
  }
  if (!mismatches.empty()) return false;
  PayloadCutter cutter(part.payload);
  (void)cutter.Cut(part.skip);
  read.kept.Append(cutter.Cut(part.bytes));
  return true;
}

bool ObjectReads::Copy(Read& read, const Part& part) {
  const v1::ObjectUnits& units = part.units;
  const ObjectShape shape = ObjectShape::Of(units.size_bytes());
  PayloadCutter cutter(part.payload);
  std::byte* to = read.to.data() + read.taken;
  uint64_t skip = part.skip;
  uint64_t left = part.bytes;
  bool all_match = true;
  for (int i = 0; i < units.unit_crc32c_size(); ++i) {
    const Payload unit = cutter.Cut(shape.unit_bytes);
    const uint64_t take = std::min<uint64_t>(shape.unit_bytes - skip, left);
    const bool is_whole = take == shape.unit_bytes && unit.slices().size() == 1;
    const uint32_t crc32c =
        is_whole ? CopyWithCrc32c(unit.slices().front().bytes, to) : PayloadCrc32c(unit);
    if (!is_whole) {
      PayloadCutter of_unit(unit);
      (void)of_unit.Cut(skip);
      of_unit.Cut(take).CopyTo(to);
    }
    if (crc32c != units.unit_crc32c(i)) {
      NoteMismatch(read, units.first_unit() + static_cast<uint32_t>(i), crc32c);
      all_match = false;
    }
    to += take;
    left -= take;
    skip = 0;
  }
  return all_match;
}

void ObjectReads::NoteMismatch(const Read& read, uint64_t unit, uint32_t crc32c) {
  if (mismatches_.size() == wire::kMaxMismatchedUnits) return;
  mismatches_.push_back({read.key, static_cast<uint32_t>(unit), crc32c});
}

}  // namespace quire::internal
