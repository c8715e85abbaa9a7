// SPDX-License-Identifier: Apache-2.0
#include "client/objects/object_reads.h"

#include <algorithm>
#include <utility>

#include "client/reply.h"
#include "client/validate.h"
#include "common/base/memory/destination_writer.h"
#include "common/base/memory/payload_cutter.h"
#include "common/base/memory/unit_copy.h"
#include "common/wire/limits.h"

namespace quire::internal {
namespace {

uint64_t EndOf(const ObjectReads::Read& read, uint64_t object_bytes) {
  const uint64_t rest = object_bytes - read.offset;
  return read.offset + (read.wanted() == 0 ? rest : std::min(rest, read.wanted()));
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
    range->set_bytes(read.wanted() == 0 ? 0 : read.wanted() - read.taken);
    asked_.push_back(i);
  }
  for (const Mismatch& mismatch : mismatches_) {
    v1::MismatchedObjectUnit* const unit = request->add_mismatched();
    unit->set_key(std::string(mismatch.key));
    unit->set_unit(mismatch.unit);
    unit->set_crc32c(mismatch.crc32c);
  }
  mismatches_.clear();
  before_.clear();
  for (const size_t i : asked_) before_.push_back(reads_[i]);
  return !asked_.empty();
}

Status ObjectReads::Begin(v1::GetObjectsReply reply) {
  reply_ = std::move(reply);
  object_ = unit_ = 0;
  skips_object_ = loan_ended_ = false;
  rest_ = Payload();
  mismatches_.clear();
  for (size_t i = 0; i < asked_.size(); ++i) reads_[asked_[i]] = before_[i];
  const auto objects = static_cast<size_t>(reply_.objects_size());
  if (objects == 0 || objects > asked_.size()) {
    return BadReply(kMethod, objects, " objects for ", asked_.size(), " ranges");
  }
  for (const v1::ObjectUnits& object : reply_.objects()) {
    const bool is_stored = object.size_bytes() != 0;
    if (object.size_bytes() > kMaxObjectBytes || is_stored != !object.unit_crc32c().empty()) {
      return BadReply(kMethod, object.unit_crc32c_size(), " units of an object of ",
                      object.size_bytes(), " bytes");
    }
  }
  return OkStatus();
}

Status ObjectReads::Take(const Payload& piece) {
  Payload payload = std::move(rest_);
  payload.Append(piece);
  rest_ = Payload();
  PayloadCutter cutter(payload);
  uint64_t left = payload.size_bytes();
  QUIRE_RETURN_IF_ERROR(TakeFrom(cutter, &left, payload));
  rest_.Append(cutter.Cut(left));
  if (left > 0) rest_.AddLeases(payload);
  if (!payload.IsValid()) loan_ended_ = true;
  return OkStatus();
}

Status ObjectReads::TakeFrom(PayloadCutter& cutter, uint64_t* left, const Payload& leases) {
  for (; object_ < reply_.objects_size(); ++object_, unit_ = 0, skips_object_ = false) {
    const v1::ObjectUnits& object = reply_.objects(object_);
    Read& read = reads_[asked_[static_cast<size_t>(object_)]];
    if (object.size_bytes() == 0) {
      read = read.FromStart();
      read.done = true;
      continue;
    }
    const uint64_t unit_bytes = ObjectShape::Of(object.size_bytes()).unit_bytes;
    const auto wanted = static_cast<uint64_t>(object.unit_crc32c_size() - unit_);
    const auto count = static_cast<int>(std::min(wanted, *left / unit_bytes));
    if (count == 0) return OkStatus();
    const Units units{.object_bytes = object.size_bytes(),
                      .incarnation = object.incarnation(),
                      .first = object.first_unit() + static_cast<uint32_t>(unit_),
                      .crc32c = {object.unit_crc32c().data() + unit_, static_cast<size_t>(count)}};
    const Payload bytes = cutter.Cut(count * unit_bytes);
    *left -= bytes.size_bytes();
    if (!skips_object_) {
      QUIRE_ASSIGN_OR_RETURN(const bool goes_on, TakeUnits(read, units, bytes));
      skips_object_ = !goes_on;
      if (read.to == nullptr) read.kept.AddLeases(leases);
    }
    unit_ += count;
    if (unit_ < object.unit_crc32c_size()) return OkStatus();
  }
  return OkStatus();
}

Status ObjectReads::End() {
  PayloadCutter none(rest_);
  uint64_t left = 0;
  QUIRE_RETURN_IF_ERROR(
      TakeFrom(none, &left, rest_));  // Objects that are not stored have no bytes.
  if (object_ < reply_.objects_size() || !rest_.empty()) {
    return BadReply(kMethod, "its payload is not that of its units");
  }
  if (loan_ended_) {
    mismatches_.clear();
    for (size_t i = 0; i < asked_.size(); ++i) reads_[asked_[i]] = before_[i];
  } else if (mismatches_.empty()) {
    failures_ = 0;
    return OkStatus();
  }
  if (++failures_ <= kMaxRechecks) return OkStatus();
  return DataLoss("units of objects came damaged, or their loan ended, ", failures_,
                  " times in a row: check the network and this machine's memory");
}

StatusOr<bool> ObjectReads::TakeUnits(Read& read, const Units& units, const Payload& payload) {
  if (read.incarnation != 0 && read.incarnation != units.incarnation) {
    // Another object now: its bytes are asked for from the start.
    read = read.FromStart();
    return false;
  }
  if (read.exact && units.object_bytes != read.offset + read.wanted()) {
    read = read.FromStart();
    read.done = true;
    return false;
  }
  const uint64_t unit_bytes = units.shape().unit_bytes;
  const uint64_t at = read.offset + read.taken;
  const uint64_t first = uint64_t{units.first} * unit_bytes;
  if (read.done || at >= units.object_bytes || first > at || at - first >= unit_bytes) {
    return BadReply(kMethod, "unit ", units.first, " does not have the offset ", at);
  }
  const uint64_t end = std::min(EndOf(read, units.object_bytes), first + payload.size_bytes());
  const Part part{.units = units, .payload = payload, .skip = at - first, .bytes = end - at};
  if (!(read.to == nullptr ? Keep(read, part) : Copy(read, part))) return false;
  read.object_bytes = units.object_bytes;
  read.incarnation = units.incarnation;
  read.taken += end - at;
  read.done = end == EndOf(read, units.object_bytes);
  return true;
}

bool ObjectReads::Keep(Read& read, const Part& part) {
  const Units& units = part.units;
  const auto mismatches = FindMismatches(part.payload, units.shape().unit_bytes, units.crc32c);
  for (const UnitMismatch& mismatch : mismatches) {
    NoteMismatch(read, units.first + mismatch.unit, mismatch.crc32c);
  }
  if (!mismatches.empty()) return false;
  PayloadCutter cutter(part.payload);
  (void)cutter.Cut(part.skip);
  read.kept.Append(cutter.Cut(part.bytes));
  return true;
}

bool ObjectReads::Copy(Read& read, const Part& part) {
  const Units& units = part.units;
  const uint64_t unit_bytes = units.shape().unit_bytes;
  PayloadCutter cutter(part.payload);
  DestinationWriter to(*read.to, read.taken);
  uint64_t skip = part.skip;
  uint64_t left = part.bytes;
  bool all_match = true;
  for (size_t i = 0; i < units.crc32c.size(); ++i) {
    const Payload unit = cutter.Cut(unit_bytes);
    const uint64_t take = std::min<uint64_t>(unit_bytes - skip, left);
    const bool is_whole = take == unit_bytes && unit.slices().size() == 1;
    std::byte* const place = is_whole ? to.Take(unit_bytes) : nullptr;
    const uint32_t crc32c =
        place != nullptr ? CopyWithCrc32c(unit.slices().front().bytes, place) : PayloadCrc32c(unit);
    if (place == nullptr) {
      PayloadCutter of_unit(unit);
      (void)of_unit.Cut(skip);
      to.Write(of_unit.Cut(take));
    }
    if (crc32c != units.crc32c[i]) {
      NoteMismatch(read, units.first + i, crc32c);
      all_match = false;
    }
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
