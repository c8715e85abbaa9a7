// SPDX-License-Identifier: Apache-2.0
//
// For tests: files of float tensors as torch.save writes them, and archives of any entries.
#ifndef QUIRE_GPUWORKER_MODEL_CHECKPOINT_PYTORCH_PYTORCH_BUILDER_H_
#define QUIRE_GPUWORKER_MODEL_CHECKPOINT_PYTORCH_PYTORCH_BUILDER_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace quire::testing {

using NamedBytes = std::vector<std::pair<std::string, std::string>>;

/// A number of `width` bytes, little endian.
inline std::string LittleEndian(uint64_t value, size_t width) {
  std::string bytes;
  for (size_t i = 0; i < width; ++i) bytes += static_cast<char>(value >> (8 * i));
  return bytes;
}

/// An archive of stored entries.
inline std::string StoredZip(const NamedBytes& entries) {
  std::string files, directory;
  for (const auto& [name, data] : entries) {
    const std::string sizes = LittleEndian(data.size(), 4) + LittleEndian(data.size(), 4) +
                              LittleEndian(name.size(), 2) + LittleEndian(0, 2);
    directory += "PK\1\2" + std::string(16, '\0') + sizes + std::string(10, '\0') +
                 LittleEndian(files.size(), 4) + name;
    files += "PK\3\4" + std::string(14, '\0') + sizes + name + data;
  }
  return files + directory + "PK\5\6" + std::string(4, '\0') + LittleEndian(entries.size(), 2) +
         LittleEndian(entries.size(), 2) + LittleEndian(directory.size(), 4) +
         LittleEndian(files.size(), 4) + LittleEndian(0, 2);
}

/// Instructions of a pickle.
inline std::string PickledText(const std::string& text) {
  return "X" + LittleEndian(text.size(), 4) + text;
}
inline std::string PickledNumber(uint64_t number) { return "J" + LittleEndian(number, 4); }

/// Instructions that make a float tensor of `shape` in storage `storage`, from `offset` on.
inline std::string PickledFloats(const std::vector<uint64_t>& shape, const std::string& storage,
                                 uint64_t elements, uint64_t offset = 0) {
  std::string sizes = "(", strides = "(";
  uint64_t stride = 1;
  for (const uint64_t extent : shape) stride *= extent;
  for (const uint64_t extent : shape) {
    stride /= extent;
    sizes += PickledNumber(extent);
    strides += PickledNumber(stride);
  }
  return "ctorch._utils\n_rebuild_tensor_v2\n((" + PickledText("storage") +
         "ctorch\nFloatStorage\n" + PickledText(storage) + PickledText("cpu") +
         PickledNumber(elements) + "tQ" + PickledNumber(offset) + sizes + "t" + strides +
         "t\x89"
         "}tR";
}

/// The pickle of a dictionary, from the instructions of its entries.
inline std::string PickledDict(const NamedBytes& entries) {
  std::string items;
  for (const auto& [name, instructions] : entries) items += PickledText(name) + instructions;
  return "\x80\x02}(" + items + "u.";
}

/// The file of tensors, each with its shape and values.
inline std::string PytorchFile(
    const std::map<std::string, std::pair<std::vector<uint64_t>, std::vector<float>>>& tensors) {
  NamedBytes pickled, files = {{"archive/data.pkl", ""}};
  for (const auto& [name, tensor] : tensors) {
    const auto& [shape, values] = tensor;
    const std::string storage = std::to_string(pickled.size());
    pickled.emplace_back(name, PickledFloats(shape, storage, values.size()));
    files.emplace_back(
        "archive/data/" + storage,
        std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)));
  }
  files.front().second = PickledDict(pickled);
  return StoredZip(files);
}

}  // namespace quire::testing

#endif  // QUIRE_GPUWORKER_MODEL_CHECKPOINT_PYTORCH_PYTORCH_BUILDER_H_
