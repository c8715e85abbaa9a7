// SPDX-License-Identifier: Apache-2.0
#include "bench/random_model.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <span>
#include <utility>
#include <vector>

#include "client/cli/json_output.h"
#include "client/cli/progress.h"
#include "common/base/random.h"
#include "common/page/dtype.h"
#include "common/page/layout.h"

namespace quire::bench {
namespace {

constexpr uint64_t kSeed = 11;
/// Of an embedding's deviation from what all have in common, of the length of that: the cosine of
/// two of them is about 1 / (1 + share^2).
constexpr float kOwnShare = 0.3f;
/// Values of which a document's pages are made; a prime, so that no two pages begin alike.
constexpr uint64_t kPoolValues = 4194301;

/// Writes tensors of random floats one after the other. The header goes first, so the tensors are
/// declared before they are written.
class CheckpointWriter {
 public:
  struct Tensor {
    std::string name;
    std::vector<uint64_t> shape;
    float mean = 0;
    float deviation = 0;
    bool embeddings = false;
  };

  void Declare(Tensor tensor) { tensors_.push_back(std::move(tensor)); }

  Status Write(const std::string& path) const {
    cli::Json header;
    uint64_t end = 0;
    for (const Tensor& tensor : tensors_) {
      const uint64_t begin = end;
      end += Count(tensor) * sizeof(float);
      header[tensor.name] = {
          {"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
    }
    std::string text = header.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');
    const uint64_t length = text.size();
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(&length), sizeof length);
    file << text;
    SeededRandom random(kSeed);
    for (const Tensor& tensor : tensors_) {
      const std::vector<float> values = Values(tensor, random);
      file.write(reinterpret_cast<const char*>(values.data()),
                 static_cast<std::streamsize>(values.size() * sizeof(float)));
    }
    file.close();
    return file.good() ? OkStatus() : Unavailable("cannot write ", path);
  }

 private:
  static uint64_t Count(const Tensor& tensor) {
    uint64_t count = 1;
    for (const uint64_t extent : tensor.shape) count *= extent;
    return count;
  }
  static std::vector<float> Values(const Tensor& tensor, SeededRandom& random) {
    std::vector<float> values(Count(tensor));
    for (float& value : values) {
      value = tensor.mean + tensor.deviation * static_cast<float>(random.Normal());
    }
    if (!tensor.embeddings) return values;
    const uint64_t width = tensor.shape[1];
    std::vector<float> common(width);
    for (float& value : common) value = static_cast<float>(random.Normal());
    for (uint64_t i = 0; i < values.size(); ++i) {
      values[i] = common[i % width] + kOwnShare * values[i];
    }
    return values;
  }

  std::vector<Tensor> tensors_;
};

cli::Json ConfigOf(const RandomModel& m) {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"hidden_size", m.hidden_size()},
          {"intermediate_size", m.intermediate_size},
          {"num_hidden_layers", m.num_layers},
          {"num_attention_heads", m.num_query_heads},
          {"num_key_value_heads", m.num_kv_heads},
          {"head_dim", m.head_dim},
          {"vocab_size", m.vocab_size},
          {"max_position_embeddings", m.max_positions},
          {"rms_norm_eps", 1e-5},
          {"rope_theta", 500000.0},
          {"hidden_act", "silu"},
          {"tie_word_embeddings", true},
          {"torch_dtype", "float32"}};
}

}  // namespace

Status WriteRandomModel(const std::string& directory, const RandomModel& m) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return Unavailable("cannot make ", directory, ": ", error.message());
  std::ofstream(directory + "/config.json") << ConfigOf(m).dump();
  const uint64_t hidden = m.hidden_size(), kv = uint64_t{m.num_kv_heads} * m.head_dim;
  const float deviation = 1 / std::sqrt(static_cast<float>(hidden));
  CheckpointWriter writer;
  writer.Declare({"model.embed_tokens.weight", {m.vocab_size, hidden}, 0, 1, true});
  writer.Declare({"model.norm.weight", {hidden}, 1, 0.1f});
  for (uint32_t i = 0; i < m.num_layers; ++i) {
    const std::string at = "model.layers." + std::to_string(i) + ".";
    writer.Declare({at + "input_layernorm.weight", {hidden}, 1, 0.1f});
    writer.Declare({at + "post_attention_layernorm.weight", {hidden}, 1, 0.1f});
    writer.Declare({at + "self_attn.q_proj.weight", {hidden, hidden}, 0, deviation});
    writer.Declare({at + "self_attn.k_proj.weight", {kv, hidden}, 0, deviation});
    writer.Declare({at + "self_attn.v_proj.weight", {kv, hidden}, 0, deviation});
    writer.Declare({at + "self_attn.o_proj.weight", {hidden, hidden}, 0, deviation});
    writer.Declare({at + "mlp.gate_proj.weight", {m.intermediate_size, hidden}, 0, deviation});
    writer.Declare({at + "mlp.up_proj.weight", {m.intermediate_size, hidden}, 0, deviation});
    writer.Declare({at + "mlp.down_proj.weight", {hidden, m.intermediate_size}, 0, deviation / 2});
  }
  return writer.Write(directory + "/model.safetensors");
}

Status VisitRandomDocument(const KvSpec& spec, uint32_t pages, const SegmentVisitor& visit) {
  SeededRandom random(kSeed);
  const uint64_t element = ElementBytes(spec.dtype);
  const uint64_t segment_bytes = SegmentBytes(spec, spec.segment_pages);
  std::vector<std::byte> pool(kPoolValues * element + segment_bytes);
  for (uint64_t i = 0; i < pool.size() / element; ++i) {
    StoreElement(pool.data(), static_cast<int64_t>(i), spec.dtype,
                 static_cast<float>(random.Normal()));
  }
  std::vector<TokenId> tokens(spec.segment_tokens());
  for (uint32_t first = 0; first < pages; first += spec.segment_pages) {
    for (TokenId& token : tokens) token = static_cast<TokenId>(random.Below(256));
    QUIRE_RETURN_IF_ERROR(
        visit(tokens, std::span(pool).subspan(random.Below(kPoolValues) * element, segment_bytes)));
  }
  return OkStatus();
}

Status PutRandomDocument(Client& client, const KvSpec& spec, uint32_t pages,
                         const DocumentName& name) {
  cli::ProgressBar progress("storing pages", pages);
  SegmentKey tip = kRootKey;
  QUIRE_RETURN_IF_ERROR(VisitRandomDocument(
      spec, pages,
      [&](std::span<const TokenId> tokens, std::span<const std::byte> bytes) -> Status {
        Payload payload;
        payload.Append(Slice{bytes, nullptr});
        QUIRE_ASSIGN_OR_RETURN(tip, client.PutSegment(spec, tip, tokens, payload));
        progress.Advance(spec.segment_pages);
        return OkStatus();
      }));
  return client.RegisterDocument(name, tip).status();
}

}  // namespace quire::bench
