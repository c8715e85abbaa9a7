// SPDX-License-Identifier: Apache-2.0
//
// Units that came from the store, and one of them as an array of Python in place. Over shared
// memory an array lies in the server's memory, and holds its lease.
//
// A unit is [2][p][d] elements, K rows before V rows; [p][d_c + d_rope] for MLA; [p][d] of a
// session of values alone. A unit that came encoded is bytes.
//
// Ownership: Units and every Unit share the payload. Thread-safety: immutable.
#ifndef QUIRE_PYTHON_NATIVE_UNITS_H_
#define QUIRE_PYTHON_NATIVE_UNITS_H_

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "quire/kv_spec.h"
#include "quire/layout.h"
#include "quire/payload.h"
#include "quire/unit_codec.h"

namespace quire::python {

/// Shape of the elements of a part of one unit.
std::vector<int64_t> UnitShapeOf(const KvSpec& spec, UnitPart part = UnitPart::kWhole);

/// How units of a session or a fetch look.
struct UnitForm {
  KvSpec spec;
  UnitPart part = UnitPart::kWhole;

  uint64_t BytesIn(UnitCodec codec) const {
    return codec == UnitCodec::kRaw ? UnitBytes(spec, part) : UnitBytes(spec, codec);
  }
};

/// One unit. Its buffer is read-only.
class Unit {
 public:
  Unit(std::shared_ptr<const Payload> payload, Slice bytes, UnitCodec codec, const UnitForm& form);

  std::span<const std::byte> bytes() const { return slice_.bytes; }
  UnitCodec codec() const { return codec_; }
  DType dtype() const { return dtype_; }
  const std::vector<Py_ssize_t>& shape() const { return shape_; }
  const std::vector<Py_ssize_t>& strides() const { return strides_; }  ///< Bytes.
  /// Format of the struct module; uint16 for bf16, which it lacks.
  const char* format() const;
  Py_ssize_t item_bytes() const;
  bool IsValid() const { return payload_->IsValid(); }

 private:
  std::shared_ptr<const Payload> payload_;  ///< Has the leases.
  Slice slice_;
  UnitCodec codec_;
  DType dtype_;
  std::vector<Py_ssize_t> shape_;
  std::vector<Py_ssize_t> strides_;
};

class Units {
 public:
  /// `codecs` of each unit; empty when all are raw. Throws DATA_LOSS when the payload has not the
  /// bytes of `count` such units.
  Units(std::shared_ptr<const Payload> payload, size_t count, std::vector<UnitCodec> codecs,
        UnitForm form);

  size_t size() const { return ends_.size(); }
  uint64_t size_bytes() const { return payload_->size_bytes(); }
  /// In place, except for a unit that a message divided, which is put together.
  Unit At(size_t index) const;
  bool IsValid() const { return payload_->IsValid(); }
  bool AllRaw() const { return codecs_.empty(); }
  const UnitForm& form() const { return form_; }
  const Payload& payload() const { return *payload_; }

 private:
  std::shared_ptr<const Payload> payload_;
  std::vector<UnitCodec> codecs_;
  UnitForm form_;
  std::vector<uint64_t> ends_;        ///< End of each unit, in the payload's bytes.
  std::vector<uint64_t> slice_ends_;  ///< Likewise of each slice.
};

void BindUnits(nanobind::module_& module);

}  // namespace quire::python

#endif  // QUIRE_PYTHON_NATIVE_UNITS_H_
