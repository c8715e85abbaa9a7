// SPDX-License-Identifier: Apache-2.0
#include "python/native/host_array.h"

#include <cstring>
#include <limits>
#include <sstream>

#include "python/native/errors.h"

namespace quire::python {
namespace {

namespace nb = nanobind;

/// Element of a struct-module format; nothing but the type and the machine's byte order.
Element ElementOfFormat(const char* format, Py_ssize_t item_bytes) {
  if (format == nullptr) return Element::kByte;
  std::string_view text(format);
  if (!text.empty() && (text[0] == '@' || text[0] == '=' || text[0] == '<')) text.remove_prefix(1);
  if (text == "f") return Element::kF32;
  if (text == "e") return Element::kF16;
  if (text == "H") return Element::kUInt16;
  if (text == "B" || text == "b" || text == "c") return Element::kByte;
  if (text == "i" || (text == "l" && item_bytes == 4)) return Element::kInt32;
  if (text == "I" || (text == "L" && item_bytes == 4)) return Element::kUInt32;
  if (text == "q" || text == "l") return Element::kInt64;
  return Element::kOther;
}

Element ElementOfTensor(nb::dlpack::dtype dtype) {
  if (dtype.lanes != 1) return Element::kOther;
  switch (static_cast<nb::dlpack::dtype_code>(dtype.code)) {
    case nb::dlpack::dtype_code::Float:
      return dtype.bits == 32 ? Element::kF32 : dtype.bits == 16 ? Element::kF16 : Element::kOther;
    case nb::dlpack::dtype_code::Bfloat:
      return dtype.bits == 16 ? Element::kBF16 : Element::kOther;
    case nb::dlpack::dtype_code::Int:
      return dtype.bits == 32   ? Element::kInt32
             : dtype.bits == 64 ? Element::kInt64
             : dtype.bits == 8  ? Element::kByte
                                : Element::kOther;
    case nb::dlpack::dtype_code::UInt:
      return dtype.bits == 32   ? Element::kUInt32
             : dtype.bits == 16 ? Element::kUInt16
             : dtype.bits == 8  ? Element::kByte
                                : Element::kOther;
    default:
      return Element::kOther;
  }
}

const char* ElementName(Element element) {
  switch (element) {
    case Element::kF32:
      return "f32";
    case Element::kF16:
      return "f16";
    case Element::kBF16:
      return "bf16";
    case Element::kInt32:
      return "int32";
    case Element::kUInt32:
      return "uint32";
    case Element::kInt64:
      return "int64";
    case Element::kUInt16:
      return "uint16";
    case Element::kByte:
      return "bytes";
    case Element::kOther:
      break;
  }
  return "another type";
}

bool IsElementOf(Element element, DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return element == Element::kF32;
    case DType::kF16:
      return element == Element::kF16;
    case DType::kBF16:
      return element == Element::kBF16 || element == Element::kUInt16;
  }
  return false;
}

int64_t ElementsOf(const std::vector<int64_t>& shape) {
  int64_t elements = 1;
  for (const int64_t extent : shape) elements *= extent;
  return elements;
}

/// True when no element is skipped and none comes out of order. Strides count elements.
bool IsContiguous(const nb::ndarray<nb::ro>& tensor) {
  int64_t expected = 1;
  for (size_t i = tensor.ndim(); i-- > 0;) {
    const auto extent = static_cast<int64_t>(tensor.shape(i));
    if (extent != 1 && tensor.stride(i) != expected) return false;
    expected *= extent;
  }
  return true;
}

[[noreturn]] void Refuse(std::string_view what, std::string_view why) {
  throw StatusError(InvalidArgument(what, ": ", why));
}

constexpr char kNotContiguous[] =
    "the array is not contiguous; make it so, as with numpy.ascontiguousarray or .contiguous()";
constexpr char kReadOnly[] = "the array is read-only, and units are to be written into it";

}  // namespace

std::string ShapeText(const std::vector<int64_t>& shape) {
  std::ostringstream text;
  for (size_t i = 0; i < shape.size(); ++i) text << (i == 0 ? "(" : ", ") << shape[i];
  text << (shape.empty() ? "()" : shape.size() == 1 ? ",)" : ")");
  return text.str();
}

HostArray::HostArray(nb::handle object, std::string_view what, Use use) : what_(what) {
  if (PyObject_CheckBuffer(object.ptr()) != 0) {
    TakeBuffer(object, use);
  } else {
    TakeTensor(object, use);
  }
}

void HostArray::TakeBuffer(nb::handle object, Use use) {
  auto buffer = std::make_unique<Py_buffer>();
  if (PyObject_GetBuffer(object.ptr(), buffer.get(), PyBUF_FULL_RO) != 0) {
    PyErr_Clear();
    Refuse(what_, "the object lends no buffer of a type that this library knows");
  }
  buffer_.reset(buffer.release());
  if (PyBuffer_IsContiguous(buffer_.get(), 'C') == 0) Refuse(what_, kNotContiguous);
  if (use == Use::kWrite && buffer_->readonly != 0) Refuse(what_, kReadOnly);
  data_ = static_cast<std::byte*>(buffer_->buf);
  size_ = static_cast<size_t>(buffer_->len);
  element_ = ElementOfFormat(buffer_->format, buffer_->itemsize);
  shape_.assign(buffer_->shape, buffer_->shape + buffer_->ndim);
}

void HostArray::TakeTensor(nb::handle object, Use use) {
  if (!nb::try_cast(object, read_only_tensor_, false)) {
    Refuse(what_, "give an array: bytes, a memoryview, or what numpy and DLPack (torch) know");
  }
  const nb::ndarray<nb::ro>& tensor = read_only_tensor_;
  if (tensor.device_type() != nb::device::cpu::value &&
      tensor.device_type() != nb::device::cuda_host::value) {
    Refuse(what_,
           "the tensor does not lie in the memory of the host; copy it there, as with .cpu()");
  }
  if (!IsContiguous(tensor)) Refuse(what_, kNotContiguous);
  if (use == Use::kWrite && !nb::try_cast(object, tensor_, false)) Refuse(what_, kReadOnly);
  data_ = static_cast<std::byte*>(const_cast<void*>(static_cast<const void*>(tensor.data())));
  size_ = tensor.nbytes();
  element_ = ElementOfTensor(tensor.dtype());
  for (size_t i = 0; i < tensor.ndim(); ++i) {
    shape_.push_back(static_cast<int64_t>(tensor.shape(i)));
  }
}

void HostArray::CheckIs(DType dtype, const std::vector<int64_t>& shape) const {
  const int64_t wanted = ElementsOf(shape) * ElementBytes(dtype);
  if (element_ == Element::kByte && shape_.size() == 1) {
    if (shape_[0] == wanted) return;
    throw StatusError(InvalidArgument(what_, ": ", shape_[0], " bytes instead of ", wanted,
                                      ", for ", ShapeText(shape), " of ", Name(dtype)));
  }
  if (!IsElementOf(element_, dtype)) {
    throw StatusError(InvalidArgument(what_, ": elements are ", ElementName(element_),
                                      " instead of ", Name(dtype), ", as the spec says"));
  }
  if (shape_ != shape) {
    throw StatusError(InvalidArgument(what_, ": the shape is ", ShapeText(shape_), " instead of ",
                                      ShapeText(shape)));
  }
}

template <typename T>
std::vector<T> HostArray::Integers() const {
  if (shape_.size() != 1) Refuse(what_, "give one dimension instead of " + ShapeText(shape_));
  std::vector<T> values(static_cast<size_t>(shape_[0]));
  if (element_ == Element::kInt32 || element_ == Element::kUInt32) {
    std::memcpy(values.data(), data_, size_);
  } else if (element_ == Element::kInt64) {
    for (size_t i = 0; i < values.size(); ++i) {
      int64_t value;
      std::memcpy(&value, data_ + i * sizeof value, sizeof value);
      if (value < std::numeric_limits<T>::min() || value > std::numeric_limits<T>::max()) {
        throw StatusError(InvalidArgument(what_, ": ", value, " does not fit in 32 bits"));
      }
      values[i] = static_cast<T>(value);
    }
  } else {
    Refuse(what_, "elements must be integers of 32 or 64 bits");
  }
  return values;
}

template std::vector<int32_t> HostArray::Integers<int32_t>() const;
template std::vector<uint32_t> HostArray::Integers<uint32_t>() const;

}  // namespace quire::python
