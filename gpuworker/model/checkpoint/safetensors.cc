// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/model/checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "common/json/json.h"
#include "quire/dtype.h"

namespace quire::worker {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors data is little endian");

struct TypeInfo {
  std::string_view name;
  uint32_t bytes;
};
constexpr std::array<TypeInfo, 15> kTypes = {{{"F64", 8},
                                              {"F32", 4},
                                              {"F16", 2},
                                              {"BF16", 2},
                                              {"F8_E4M3", 1},
                                              {"F8_E5M2", 1},
                                              {"I64", 8},
                                              {"I32", 4},
                                              {"I16", 2},
                                              {"I8", 1},
                                              {"U64", 8},
                                              {"U32", 4},
                                              {"U16", 2},
                                              {"U8", 1},
                                              {"BOOL", 1}}};
constexpr size_t kMaxRank = 8;
constexpr size_t kLengthBytes = 8;

/// Where one tensor's bytes lie in the data part.
struct Extent {
  uint64_t begin = 0;
  uint64_t end = 0;
  const std::string* tensor = nullptr;
};

/// Reads one header entry; `where` is "file: tensor name", for messages.
class EntryParser {
 public:
  EntryParser(const nlohmann::json& entry, std::string where)
      : entry_(entry), where_(std::move(where)) {}

  StatusOr<std::pair<TensorView, Extent>> Parse(std::span<const std::byte> data) const {
    if (!entry_.is_object()) return Error("its entry is not an object");
    TensorView view;
    Extent extent;
    QUIRE_RETURN_IF_ERROR(ReadType(view));
    QUIRE_ASSIGN_OR_RETURN(const uint64_t bytes, ReadShape(view));
    QUIRE_RETURN_IF_ERROR(ReadOffsets(extent, data.size()));
    if (extent.end - extent.begin != bytes) {
      return Error("shape ", ShapeText(view.shape), " of ", Name(view.type), " takes ", bytes,
                   " bytes, but data_offsets give ", extent.end - extent.begin);
    }
    view.data = data.subspan(extent.begin, bytes);
    return std::pair(std::move(view), extent);
  }

 private:
  template <typename... Parts>
  Status Error(const Parts&... what) const {
    return InvalidArgument(where_, ": ", what...);
  }

  /// The field, if it is an array of unsigned integers; else null.
  const nlohmann::json* UIntArray(const char* field) const {
    const auto it = entry_.find(field);
    if (it == entry_.end() || !it->is_array()) return nullptr;
    const bool all =
        std::all_of(it->begin(), it->end(), [](const auto& n) { return n.is_number_unsigned(); });
    return all ? &*it : nullptr;
  }

  Status ReadType(TensorView& view) const {
    const auto it = entry_.find("dtype");
    if (it == entry_.end() || !it->is_string()) return Error("dtype is missing");
    const auto& name = it->get_ref<const std::string&>();
    const auto known = std::find_if(kTypes.begin(), kTypes.end(),
                                    [&](const TypeInfo& type) { return type.name == name; });
    if (known == kTypes.end()) return Error("dtype \"", name, "\" is unknown");
    view.type = static_cast<TensorType>(known - kTypes.begin());
    return OkStatus();
  }

  /// Fills the shape and returns the bytes it takes.
  StatusOr<uint64_t> ReadShape(TensorView& view) const {
    const nlohmann::json* shape = UIntArray("shape");
    if (shape == nullptr) return Error("shape is not an array of sizes");
    if (shape->size() > kMaxRank) return Error("shape has more than ", kMaxRank, " dimensions");
    uint64_t bytes = ElementBytes(view.type);
    for (const auto& size : *shape) {
      view.shape.push_back(size.get<uint64_t>());
      if (__builtin_mul_overflow(bytes, view.shape.back(), &bytes)) {
        return Error("shape ", ShapeText(view.shape), " overflows");
      }
    }
    return bytes;
  }

  Status ReadOffsets(Extent& extent, uint64_t data_bytes) const {
    const nlohmann::json* offsets = UIntArray("data_offsets");
    if (offsets == nullptr || offsets->size() != 2) {
      return Error("data_offsets is not a pair of offsets");
    }
    extent.begin = (*offsets)[0].get<uint64_t>();
    extent.end = (*offsets)[1].get<uint64_t>();
    if (extent.begin > extent.end || extent.end > data_bytes) {
      return Error("data_offsets [", extent.begin, ", ", extent.end, "] lie outside the file's ",
                   data_bytes,
                   " data bytes; the file is truncated or damaged: copy or download it again");
    }
    return OkStatus();
  }

  const nlohmann::json& entry_;
  const std::string where_;
};

Status CheckMetadata(const nlohmann::json& metadata, const std::string& name) {
  const bool strings =
      metadata.is_object() && std::all_of(metadata.begin(), metadata.end(),
                                          [](const auto& value) { return value.is_string(); });
  if (!strings) return InvalidArgument(name, ": __metadata__ must map strings to strings");
  return OkStatus();
}

/// Every data byte belongs to exactly one tensor.
Status CheckCoverage(std::vector<Extent> extents, uint64_t data_bytes, const std::string& name) {
  std::sort(extents.begin(), extents.end(), [](const Extent& a, const Extent& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  uint64_t covered = 0;
  for (const Extent& extent : extents) {
    if (extent.begin != covered) {
      return InvalidArgument(name, ": tensor ", *extent.tensor, " begins at data byte ",
                             extent.begin,
                             extent.begin < covered ? ", inside another" : ", after a hole",
                             " (expected ", covered, ")");
    }
    covered = extent.end;
  }
  if (covered != data_bytes) {
    return InvalidArgument(name, ": ", data_bytes - covered, " bytes after the last tensor");
  }
  return OkStatus();
}

/// The header text, once its length has been checked.
StatusOr<std::string_view> HeaderText(std::span<const std::byte> bytes, const std::string& name) {
  if (bytes.size() < kLengthBytes) {
    return InvalidArgument(name, ": ", bytes.size(), " bytes are too few for a safetensors file");
  }
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  if (length > kMaxSafetensorsHeaderBytes) {
    return InvalidArgument(name, ": header length ", length, " is over the limit of ",
                           kMaxSafetensorsHeaderBytes, "; not a safetensors file");
  }
  if (length > bytes.size() - kLengthBytes) {
    return InvalidArgument(name, ": header length ", length, " reaches past the end of the file (",
                           bytes.size(),
                           " bytes); the file is truncated: copy or download it again");
  }
  return std::string_view(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length);
}

}  // namespace

std::string_view Name(TensorType type) { return kTypes[static_cast<size_t>(type)].name; }
uint32_t ElementBytes(TensorType type) { return kTypes[static_cast<size_t>(type)].bytes; }

std::string ShapeText(const std::vector<uint64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  return text + "]";
}

StatusOr<SafetensorsFile> ParseSafetensors(std::span<const std::byte> bytes, std::string name) {
  QUIRE_ASSIGN_OR_RETURN(const std::string_view text, HeaderText(bytes, name));
  QUIRE_ASSIGN_OR_RETURN(const nlohmann::json header, ParseJson(text, name + ": header"));
  if (!header.is_object()) return InvalidArgument(name, ": header is not a JSON object");
  const std::span<const std::byte> data = bytes.subspan(kLengthBytes + text.size());

  SafetensorsFile file{std::move(name), {}};
  std::vector<Extent> extents;
  for (const auto& [tensor, entry] : header.items()) {
    if (tensor == "__metadata__") {
      QUIRE_RETURN_IF_ERROR(CheckMetadata(entry, file.name));
      continue;
    }
    const EntryParser parser(entry, file.name + ": tensor " + tensor);
    QUIRE_ASSIGN_OR_RETURN(auto parsed, parser.Parse(data));
    const auto it = file.tensors.emplace(tensor, std::move(parsed.first)).first;
    parsed.second.tensor = &it->first;
    extents.push_back(parsed.second);
  }
  QUIRE_RETURN_IF_ERROR(CheckCoverage(std::move(extents), data.size(), file.name));
  return file;
}

Status ConvertToFloat(const TensorView& tensor, std::string_view name, float* out) {
  if (tensor.type == TensorType::kF32) {
    if (!tensor.data.empty()) std::memcpy(out, tensor.data.data(), tensor.data.size());
    return OkStatus();
  }
  if (tensor.type != TensorType::kF16 && tensor.type != TensorType::kBF16) {
    return InvalidArgument("tensor ", name, " is ", Name(tensor.type),
                           "; F32, F16 and BF16 are read: convert the checkpoint");
  }
  const bool half = tensor.type == TensorType::kF16;
  for (uint64_t i = 0; i < tensor.elements(); ++i) {
    uint16_t bits;
    std::memcpy(&bits, tensor.data.data() + i * sizeof bits, sizeof bits);
    out[i] = half ? F16ToFloat(bits) : BF16ToFloat(bits);
  }
  return OkStatus();
}

}  // namespace quire::worker
