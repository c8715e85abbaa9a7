// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/model/checkpoint/checkpoint.h"

#include <openssl/evp.h>

#include <filesystem>
#include <memory>
#include <set>
#include <utility>

#include "common/json/json.h"
#include "gpuworker/model/checkpoint/pytorch/pytorch_file.h"

namespace quire::worker {
namespace {

constexpr size_t kMaxIndexBytes = 64 << 20;
constexpr char kSingleFile[] = "model.safetensors";
constexpr char kPickledFile[] = "pytorch_model.bin";
/// `metadata` holds sizes, which the files have themselves.
constexpr std::string_view kIndexFields[] = {"metadata", "weight_map"};

/// A running SHA-256. Strings and numbers are hashed with their lengths, so that no two sequences
/// of calls feed the same bytes.
class Sha256 {
 public:
  Sha256() { EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr); }
  void Add(std::span<const std::byte> bytes) {
    Add(bytes.size());
    EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size());
  }
  void Add(std::string_view text) { Add(std::as_bytes(std::span(text))); }
  void Add(uint64_t number) { EVP_DigestUpdate(context_.get(), &number, sizeof number); }
  std::array<uint8_t, 32> Finish() {
    std::array<uint8_t, 32> hash{};
    EVP_DigestFinal_ex(context_.get(), hash.data(), nullptr);
    return hash;
  }

 private:
  struct Free {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  std::unique_ptr<EVP_MD_CTX, Free> context_{EVP_MD_CTX_new()};
};

bool IsPlainFileName(const std::string& name) {
  return !name.empty() && name.find('/') == std::string::npos && name != "." && name != ".." &&
         name.find('\0') == std::string::npos;
}

/// True for names of weights or of a part of them, as model*.safetensors or X-1-of-2. Mistral's
/// consolidated files repeat the same weights in another form.
bool IsNamedAsWeights(std::string_view name) {
  if (!name.ends_with(".safetensors") || name.starts_with("consolidated")) return false;
  return name.starts_with("model") || name.find("-of-") != std::string_view::npos;
}

/// Refuses an adapter's directory, which may hold a model besides.
Status CheckNoAdapter(const std::string& directory) {
  if (!std::filesystem::exists(directory + "/adapter_config.json")) return OkStatus();
  return InvalidArgument(directory, ": adapter_config.json is that of an adapter (LoRA), which is ",
                         "not applied here; merge it into its model, and name the result");
}

/// Refuses weights that are no part of the model, which `files` are.
Status CheckNothingBeside(const std::string& directory, const std::set<std::string>& files,
                          const std::string& path) {
  QUIRE_RETURN_IF_ERROR(CheckNoAdapter(directory));
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    if (!IsNamedAsWeights(name) || files.contains(name)) continue;
    return InvalidArgument(path, ": ", name, " is in the same directory and no part of it; take ",
                           "away what is out of date");
  }
  if (error) return InvalidArgument("cannot list ", directory, ": ", error.message());
  return OkStatus();
}

}  // namespace

StatusOr<std::map<std::string, std::string>> ParseShardIndex(std::string_view text,
                                                             const std::string& name) {
  QUIRE_ASSIGN_OR_RETURN(const nlohmann::json index, ParseJson(text, name));
  if (!index.is_object()) return InvalidArgument(name, ": not a JSON object");
  const auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object() || map->empty()) {
    return InvalidArgument(name, ": weight_map is missing or empty");
  }
  const JsonFields fields(index, name);
  QUIRE_RETURN_IF_ERROR(fields.CheckAllRead(kIndexFields));
  std::map<std::string, std::string> shards;
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string() || !IsPlainFileName(file.get_ref<const std::string&>())) {
      return InvalidArgument(name, ": weight_map of tensor ", tensor,
                             " must be the name of a file in the same directory");
    }
    shards[tensor] = file.get<std::string>();
  }
  return shards;
}

StatusOr<Checkpoint> Checkpoint::Open(const std::string& directory) {
  const std::string single = directory + "/" + kSingleFile;
  const std::string index = directory + "/model.safetensors.index.json";
  if (!std::filesystem::exists(index)) {
    if (!std::filesystem::exists(single)) {
      QUIRE_RETURN_IF_ERROR(CheckNoAdapter(directory));
      return OpenPickled(directory);
    }
    QUIRE_RETURN_IF_ERROR(CheckNothingBeside(directory, {kSingleFile}, single));
    Checkpoint checkpoint(single);
    QUIRE_RETURN_IF_ERROR(checkpoint.AddFile(single).status());
    return checkpoint;
  }
  Checkpoint checkpoint(index);
  QUIRE_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(index, kMaxIndexBytes));
  QUIRE_RETURN_IF_ERROR(checkpoint.AddShards(directory, text));
  return checkpoint;
}

StatusOr<Checkpoint> Checkpoint::OpenPickled(const std::string& directory) {
  const std::string file = directory + "/" + kPickledFile;
  if (!std::filesystem::exists(file)) {
    return NotFound(directory, ": holds neither model.safetensors nor ",
                    "model.safetensors.index.json nor ", kPickledFile);
  }
  Checkpoint checkpoint(file);
  QUIRE_ASSIGN_OR_RETURN(MappedFile mapped, MappedFile::Open(file));
  QUIRE_ASSIGN_OR_RETURN(checkpoint.tensors_, ParsePytorchFile(mapped.bytes(), file));
  checkpoint.files_.push_back(std::move(mapped));
  return checkpoint;
}

StatusOr<std::vector<std::string>> Checkpoint::AddFile(const std::string& file) {
  QUIRE_ASSIGN_OR_RETURN(MappedFile mapped, MappedFile::Open(file));
  QUIRE_ASSIGN_OR_RETURN(SafetensorsFile parsed, ParseSafetensors(mapped.bytes(), file));
  files_.push_back(std::move(mapped));
  std::vector<std::string> names;
  for (const auto& [name, view] : parsed.tensors) names.push_back(name);
  tensors_.merge(parsed.tensors);
  if (!parsed.tensors.empty()) {  // Tensors that merge left behind were there already.
    return InvalidArgument(file, ": tensor ", parsed.tensors.begin()->first,
                           " is in another shard too");
  }
  return names;
}

Status Checkpoint::AddShards(const std::string& directory, std::string_view index_text) {
  QUIRE_ASSIGN_OR_RETURN(const auto shards, ParseShardIndex(index_text, path_));
  std::set<std::string> files;
  for (const auto& [tensor, file] : shards) files.insert(file);
  QUIRE_RETURN_IF_ERROR(CheckNothingBeside(directory, files, path_));
  for (const std::string& file : files) {
    QUIRE_ASSIGN_OR_RETURN(const std::vector<std::string> names, AddFile(directory + "/" + file));
    for (const std::string& tensor : names) {
      const auto indexed = shards.find(tensor);
      if (indexed == shards.end()) {
        return InvalidArgument(path_, ": tensor ", tensor, " is in a shard but not in the index");
      }
      if (indexed->second == file) continue;
      return InvalidArgument(path_, ": tensor ", tensor, " is in ", file, ", not in ",
                             indexed->second);
    }
  }
  for (const auto& [tensor, file] : shards) {
    if (!tensors_.contains(tensor)) {
      return InvalidArgument(path_, ": tensor ", tensor, " is not in ", file);
    }
  }
  return OkStatus();
}

std::array<uint8_t, 32> Checkpoint::Hash(std::string_view settings) const {
  Sha256 hash;
  hash.Add(std::string_view("quire.weights.v1"));
  hash.Add(settings);
  for (const auto& [name, view] : tensors_) {
    hash.Add(std::string_view(name));
    hash.Add(Name(view.type));
    hash.Add(std::as_bytes(std::span(view.shape)));
    hash.Add(view.data);
  }
  return hash.Finish();
}

}  // namespace quire::worker
