// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/model/checkpoint/pytorch/pytorch_file.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "gpuworker/model/checkpoint/pytorch/stored_zip.h"
#include "gpuworker/model/checkpoint/pytorch/tensor_pickle.h"

namespace quire::worker {
namespace {

constexpr std::string_view kPickle = "data.pkl";

/// The archive's name and a slash, which stand before data.pkl in the names of all entries.
StatusOr<std::string> PrefixOf(const ZipEntries& entries, const std::string& file) {
  for (const auto& [name, bytes] : entries) {
    const size_t slash = name.find('/');
    if (slash == std::string::npos) continue;
    if (std::string_view(name).substr(slash + 1) == kPickle) return name.substr(0, slash + 1);
  }
  return InvalidArgument(file, ": has no data.pkl, which torch.save writes");
}

Status CheckByteOrder(const ZipEntries& entries, const std::string& prefix,
                      const std::string& file) {
  const auto found = entries.find(prefix + "byteorder");
  if (found == entries.end()) return OkStatus();
  const std::string_view order(reinterpret_cast<const char*>(found->second.data()),
                               found->second.size());
  if (order == "little") return OkStatus();
  return InvalidArgument(file, ": was written by a machine of another byte order; save it anew");
}

StatusOr<TensorView> ViewOf(PickledTensor tensor, const ZipEntries& entries,
                            const std::string& prefix, const std::string& file) {
  const auto storage = entries.find(prefix + "data/" + tensor.storage);
  const uint64_t width = ElementBytes(tensor.type);
  if (storage == entries.end() || storage->second.size() / width != tensor.storage_elements ||
      storage->second.size() % width != 0) {
    return InvalidArgument(file, ": tensor ", tensor.name, " lies in storage ", tensor.storage,
                           ", which is missing or not of ", tensor.storage_elements,
                           " elements of ", Name(tensor.type), "; copy the file anew");
  }
  uint64_t elements = 1;
  for (const uint64_t extent : tensor.shape) elements *= extent;
  return TensorView{.type = tensor.type,
                    .shape = std::move(tensor.shape),
                    .data = storage->second.subspan(tensor.offset * width, elements * width)};
}

}  // namespace

StatusOr<TensorMap> ParsePytorchFile(std::span<const std::byte> bytes, const std::string& file) {
  QUIRE_ASSIGN_OR_RETURN(const ZipEntries entries, ReadStoredZip(bytes, file));
  QUIRE_ASSIGN_OR_RETURN(const std::string prefix, PrefixOf(entries, file));
  QUIRE_RETURN_IF_ERROR(CheckByteOrder(entries, prefix, file));
  const auto pickle = entries.find(prefix + std::string(kPickle));
  QUIRE_ASSIGN_OR_RETURN(std::vector<PickledTensor> pickled,
                         ParseTensorPickle(pickle->second, file));
  TensorMap tensors;
  for (PickledTensor& tensor : pickled) {
    std::string name = tensor.name;
    QUIRE_ASSIGN_OR_RETURN(tensors[std::move(name)],
                           ViewOf(std::move(tensor), entries, prefix, file));
  }
  return tensors;
}

}  // namespace quire::worker
