// SPDX-License-Identifier: Apache-2.0
//
// Reader of the safetensors format: 8 bytes header length (little endian), a JSON header, then the
// tensors' bytes. Everything is validated before use. Tensors of an accepted file lie inside it,
// cover its data exactly once, and have the bytes of their shapes. Ownership: views borrow the
// bytes given to ParseSafetensors. Thread-safety: const use is safe. Errors: INVALID_ARGUMENT
// naming the file and the tensor.
#ifndef QUIRE_GPUWORKER_MODEL_CHECKPOINT_SAFETENSORS_H_
#define QUIRE_GPUWORKER_MODEL_CHECKPOINT_SAFETENSORS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quire/status.h"

namespace quire::worker {

/// The format's element types.
enum class TensorType : uint8_t {
  kF64,
  kF32,
  kF16,
  kBF16,
  kF8E4M3,
  kF8E5M2,
  kI64,
  kI32,
  kI16,
  kI8,
  kU64,
  kU32,
  kU16,
  kU8,
  kBool
};

/// The name that headers use ("F32", ...).
std::string_view Name(TensorType type);
uint32_t ElementBytes(TensorType type);

struct TensorView {
  TensorType type = TensorType::kF32;
  std::vector<uint64_t> shape;      ///< Row-major; empty for a scalar.
  std::span<const std::byte> data;  ///< elements() * ElementBytes(type) bytes, any alignment.

  uint64_t elements() const { return data.size() / ElementBytes(type); }
};

/// "[2, 3]"
std::string ShapeText(const std::vector<uint64_t>& shape);

/// Tensors by name, in the order of their names.
using TensorMap = std::map<std::string, TensorView, std::less<>>;

struct SafetensorsFile {
  std::string name;  ///< Name of the file, for messages.
  TensorMap tensors;
};

/// Longest header accepted, the limit of the format's own implementation.
inline constexpr uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;

StatusOr<SafetensorsFile> ParseSafetensors(std::span<const std::byte> bytes, std::string name);

/// Writes the tensor's elements as floats to out[0 .. elements()). INVALID_ARGUMENT unless the type
/// is F32, F16 or BF16.
Status ConvertToFloat(const TensorView& tensor, std::string_view name, float* out);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_MODEL_CHECKPOINT_SAFETENSORS_H_
