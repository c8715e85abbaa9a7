// SPDX-License-Identifier: Apache-2.0
#include "python/native/units.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <utility>

#include "python/native/errors.h"
#include "python/native/host_array.h"
#include "python/native/names.h"

namespace quire::python {
namespace {

namespace nb = nanobind;

/// The buffer protocol: the unit's memory, read-only.
int LendBuffer(PyObject* object, Py_buffer* view, int flags) {
  view->obj = nullptr;
  if ((flags & PyBUF_WRITABLE) == PyBUF_WRITABLE) {
    PyErr_SetString(PyExc_BufferError,
                    "units of the store are read-only; copy them to change them");
    return -1;
  }
  const Unit& unit = *nb::inst_ptr<Unit>(object);
  view->buf = const_cast<std::byte*>(unit.bytes().data());
  view->len = static_cast<Py_ssize_t>(unit.bytes().size());
  view->itemsize = unit.item_bytes();
  view->readonly = 1;
  view->ndim = static_cast<int>(unit.shape().size());
  view->format =
      (flags & PyBUF_FORMAT) == PyBUF_FORMAT ? const_cast<char*>(unit.format()) : nullptr;
  view->shape =
      (flags & PyBUF_ND) == PyBUF_ND ? const_cast<Py_ssize_t*>(unit.shape().data()) : nullptr;
  view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES
                      ? const_cast<Py_ssize_t*>(unit.strides().data())
                      : nullptr;
  view->suboffsets = nullptr;
  view->internal = nullptr;
  Py_INCREF(object);
  view->obj = object;
  return 0;
}

PyType_Slot unit_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(LendBuffer)}, {0, nullptr}};

nb::dlpack::dtype TensorTypeOf(const Unit& unit) {
  using Code = nb::dlpack::dtype_code;
  if (unit.codec() != UnitCodec::kRaw) return {static_cast<uint8_t>(Code::UInt), 8, 1};
  const Code code = unit.dtype() == DType::kBF16 ? Code::Bfloat : Code::Float;
  return {static_cast<uint8_t>(code), static_cast<uint8_t>(8 * ElementBytes(unit.dtype())), 1};
}

/// A tensor that keeps `self`.
nb::object TensorOf(nb::handle self) {
  const Unit& unit = nb::cast<const Unit&>(self);
  const std::vector<size_t> shape(unit.shape().begin(), unit.shape().end());
  const nb::ndarray<nb::array_api, nb::ro> tensor(unit.bytes().data(), shape.size(), shape.data(),
                                                  self, nullptr, TensorTypeOf(unit));
  return nb::cast(tensor);
}

std::string DTypeName(const Unit& unit) {
  return unit.codec() == UnitCodec::kRaw ? Name(unit.dtype()) : "u8";
}

/// Copies every unit to `out`, [units][unit], and looks whether they stayed valid.
void CopyTo(const Units& units, nb::handle out) {
  if (!units.AllRaw()) {
    throw StatusError(InvalidArgument("units came encoded: open the session without codecs"));
  }
  HostArray array(out, "out", HostArray::Use::kWrite);
  std::vector<int64_t> shape = UnitShapeOf(units.form().spec, units.form().part);
  shape.insert(shape.begin(), static_cast<int64_t>(units.size()));
  array.CheckIs(units.form().spec.dtype, shape);
  const bool valid = WithoutGil([&] {
    units.payload().CopyTo(array.writable().data());
    return units.IsValid();
  });
  if (!valid) throw StatusError(Unavailable("the units were held for too long; ask again"));
}

}  // namespace

std::vector<int64_t> UnitShapeOf(const KvSpec& spec, UnitPart part) {
  const int64_t tokens = spec.page_tokens;
  const int64_t row = spec.key_dim();
  if (spec.attention == AttentionKind::kMla || part == UnitPart::kValues) return {tokens, row};
  return {2, tokens, row};
}

Unit::Unit(std::shared_ptr<const Payload> payload, Slice bytes, UnitCodec codec,
           const UnitForm& form)
    : payload_(std::move(payload)),
      slice_(std::move(bytes)),
      codec_(codec),
      dtype_(form.spec.dtype) {
  if (codec_ == UnitCodec::kRaw) {
    const std::vector<int64_t> shape = UnitShapeOf(form.spec, form.part);
    shape_.assign(shape.begin(), shape.end());
  } else {
    shape_ = {static_cast<Py_ssize_t>(slice_.bytes.size())};
  }
  strides_.resize(shape_.size());
  Py_ssize_t stride = item_bytes();
  for (size_t i = shape_.size(); i-- > 0;) {
    strides_[i] = stride;
    stride *= shape_[i];
  }
}

const char* Unit::format() const {
  if (codec_ != UnitCodec::kRaw) return "B";
  return dtype_ == DType::kF32 ? "f" : dtype_ == DType::kF16 ? "e" : "H";
}

Py_ssize_t Unit::item_bytes() const {
  return codec_ == UnitCodec::kRaw ? static_cast<Py_ssize_t>(ElementBytes(dtype_)) : 1;
}

Units::Units(std::shared_ptr<const Payload> payload, size_t count, std::vector<UnitCodec> codecs,
             UnitForm form)
    : payload_(std::move(payload)), codecs_(std::move(codecs)), form_(std::move(form)) {
  ends_.reserve(count);
  uint64_t end = 0;
  for (size_t i = 0; i < count; ++i) {
    end += form_.BytesIn(codecs_.empty() ? UnitCodec::kRaw : codecs_[i]);
    ends_.push_back(end);
  }
  if (end != payload_->size_bytes()) {
    throw StatusError(
        DataLoss(payload_->size_bytes(), " bytes came for ", count, " units of ", end, " bytes"));
  }
  end = 0;
  for (const Slice& slice : payload_->slices()) slice_ends_.push_back(end += slice.bytes.size());
}

Unit Units::At(size_t index) const {
  const uint64_t begin = index == 0 ? 0 : ends_[index - 1];
  const uint64_t bytes = ends_[index] - begin;
  const size_t at = static_cast<size_t>(
      std::upper_bound(slice_ends_.begin(), slice_ends_.end(), begin) - slice_ends_.begin());
  const std::vector<Slice>& slices = payload_->slices();
  uint64_t offset = begin - (at == 0 ? 0 : slice_ends_[at - 1]);
  Payload parts;
  for (size_t i = at; parts.size_bytes() < bytes; ++i, offset = 0) {
    const uint64_t wanted = bytes - parts.size_bytes();
    const uint64_t left = slices[i].bytes.size() - offset;
    parts.Append(Slice{slices[i].bytes.subspan(offset, std::min(wanted, left)), slices[i].owner});
  }
  return Unit(payload_, parts.Flatten(), codecs_.empty() ? UnitCodec::kRaw : codecs_[index], form_);
}

void BindUnits(nb::module_& module) {
  nb::class_<Unit>(module, "Unit", nb::type_slots(unit_slots),
                   "One unit, read-only and in place: [2][p][d] elements, K rows before V rows.\n\n"
                   "`numpy.asarray(unit)`, `memoryview(unit)` and `torch.from_dlpack(unit)` share\n"
                   "its memory and keep its lease. numpy shows bf16 as uint16.")
      .def_prop_ro(
          "shape", [](const Unit& unit) { return nb::tuple(nb::cast(unit.shape())); },
          nb::sig("def shape(self) -> tuple[int, ...]"), "Elements of each dimension.")
      .def_prop_ro("dtype", &DTypeName, "\"f32\", \"f16\", \"bf16\"; \"u8\" when encoded.")
      .def_prop_ro(
          "codec", [](const Unit& unit) { return NameOf(kUnitCodecsByName, unit.codec()); },
          "Codec of the unit as it came; \"raw\": elements.")
      .def_prop_ro("valid", &Unit::IsValid,
                   "True while the bytes are as they came. Ask after a use.")
      .def_prop_ro(
          "address",
          [](const Unit& unit) { return reinterpret_cast<uintptr_t>(unit.bytes().data()); },
          "Address of the first byte in this process.")
      .def_prop_ro(
          "nbytes", [](const Unit& unit) { return unit.bytes().size(); }, "Bytes of the unit.")
      .def(
          "__dlpack__",
          [](nb::handle self, nb::kwargs options) {
            return TensorOf(self).attr("__dlpack__")(**options);
          },
          nb::sig("def __dlpack__(self, **options: object) -> object"),
          "The unit as a DLPack capsule.")
      .def(
          "__dlpack_device__",
          [](const Unit&) { return nb::make_tuple(nb::device::cpu::value, 0); },
          nb::sig("def __dlpack_device__(self) -> tuple[int, int]"), "The host.");
  nb::class_<Units>(module, "Units", "Units in the order asked; a sequence of Unit.")
      .def("__len__", &Units::size)
      .def(
          "__getitem__",
          [](const Units& units, Py_ssize_t index) {
            const auto size = static_cast<Py_ssize_t>(units.size());
            if (index < -size || index >= size) throw nb::index_error();
            return units.At(static_cast<size_t>(index < 0 ? index + size : index));
          },
          nb::arg("index"), "The unit at `index`, in place.")
      .def_prop_ro("nbytes", &Units::size_bytes, "Bytes of all units.")
      .def_prop_ro("valid", &Units::IsValid,
                   "True while the bytes are as they came. Ask after a use.")
      .def("copy_to", &CopyTo, nb::arg("out"), nb::sig("def copy_to(self, out: object) -> None"),
           "Copies all units to `out`, a contiguous array of shape [units, *unit].");
}

}  // namespace quire::python
