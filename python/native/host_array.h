// SPDX-License-Identifier: Apache-2.0
//
// HostArray: the memory of an array of Python that lies on the host: a buffer (bytes, memoryview,
// numpy) or a DLPack tensor (torch, also pinned). It must be C-contiguous. The bytes are read and
// written in place.
//
// Ownership: the object keeps its memory while a HostArray lives. Thread-safety: made, moved and
// destroyed with the GIL held; the bytes may be used without it.
#ifndef QUIRE_PYTHON_NATIVE_HOST_ARRAY_H_
#define QUIRE_PYTHON_NATIVE_HOST_ARRAY_H_

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quire/dtype.h"

namespace quire::python {

enum class Element : uint8_t { kOther, kF32, kF16, kBF16, kInt32, kUInt32, kInt64, kUInt16, kByte };

class HostArray {
 public:
  enum class Use { kRead, kWrite };
  /// Throws INVALID_ARGUMENT, naming `what`: no array, not on the host, not contiguous, or
  /// read-only where it is to be written.
  HostArray(nanobind::handle object, std::string_view what, Use use);

  Element element() const { return element_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::span<std::byte> writable() { return {data_, size_}; }

  /// Throws INVALID_ARGUMENT unless the array has `shape` and elements of `dtype`. Bytes of the
  /// same number in one dimension do as well, and so do elements of 16 bits without a type for
  /// bf16, which numpy lacks.
  void CheckIs(DType dtype, const std::vector<int64_t>& shape) const;
  /// Elements of the only dimension as integers of 32 bits. Throws INVALID_ARGUMENT for others.
  template <typename T>
  std::vector<T> Integers() const;

 private:
  void TakeBuffer(nanobind::handle object, Use use);
  void TakeTensor(nanobind::handle object, Use use);

  struct ReleaseBuffer {
    void operator()(Py_buffer* buffer) const {
      PyBuffer_Release(buffer);
      delete buffer;
    }
  };

  std::string what_;
  std::unique_ptr<Py_buffer, ReleaseBuffer> buffer_;
  nanobind::ndarray<> tensor_;
  nanobind::ndarray<nanobind::ro> read_only_tensor_;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
  Element element_ = Element::kOther;
  std::vector<int64_t> shape_;
};

/// "(2, 3)"
std::string ShapeText(const std::vector<int64_t>& shape);

}  // namespace quire::python

#endif  // QUIRE_PYTHON_NATIVE_HOST_ARRAY_H_
