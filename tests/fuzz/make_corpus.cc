// SPDX-License-Identifier: Apache-2.0
//
// Writes the seed corpora: `make_corpus tests/fuzz/corpus`. Each seed is a valid input, so that
// mutations of it get past the first checks.
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "client/client.h"
#include "client/recall_codec.h"
#include "common/base/checksum.h"
#include "common/base/retry_hint.h"
#include "common/transport/frame.h"
#include "common/wire/convert.h"
#include "common/wire/convert_context.h"
#include "common/wire/wire_split.h"
#include "kvserver/registry/collection_settings.h"
#include "kvserver/registry/document_keys.h"
#include "kvserver/registry/document_record.h"
#include "kvserver/store/codec/entropy.h"
#include "kvserver/store/extent_record.h"
#include "kvserver/store/payload/volume_header.h"
#include "kvserver/store/segment_record.h"
#include "quire/v1/session.pb.h"
#include "quire/v1/worker.pb.h"
#include "tests/fuzz/entropy_shape.h"
#include "tests/fuzz/recall_shape.h"

namespace {

using namespace quire;
namespace fs = std::filesystem;

void Write(const fs::path& path, const std::string& bytes) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

KvSpec SmallSpec() {
  KvSpec spec;
  spec.model = "seed";
  spec.num_layers = 2;
  spec.num_query_heads = 4;
  spec.num_kv_heads = 2;
  spec.head_dim = 8;
  spec.page_tokens = 4;
  spec.segment_pages = 2;
  spec.rope.rotary_dim = 8;
  return spec;
}

void WriteWireSeeds(const fs::path& dir) {
  auto seed = [&](char selector, const std::string& name,
                  const google::protobuf::Message& message) {
    Write(dir / name, selector + message.SerializeAsString());
  };
  v1::KvSpec spec;
  wire::KvSpecToProto(SmallSpec(), &spec);
  seed(0, "kv_spec", spec);

  v1::ContextRef ref;
  wire::DocumentNameToProto(DocumentName{"collection", "name", 3}, ref.mutable_document());
  seed(1, "context_ref", ref);

  v1::ContextInfo info;
  const std::vector<TokenId> tokens(11, 7);
  wire::ContextInfoToProto(ContextInfo{SmallSpec(), 11, 3, ChainKeys({}, SmallSpec(), tokens),
                                       ChainKeys({}, SmallSpec(), tokens).back()},
                           &info);
  seed(2, "context_info", info);

  Document registered;
  registered.name = {"c", "n", 1};
  registered.num_tokens = 9;
  registered.model = "m";
  v1::Document document;
  wire::DocumentToProto(registered, &document);
  seed(3, "document", document);

  Write(dir / "split", '\4' + info.SerializeAsString() + wire::PayloadHeader(5) + "bytes");

  v1::AppendPagesRequest append;
  append.set_context_id(77);
  for (TokenId token : tokens) append.add_tokens(token);
  seed(5, "append", append);
  Write(dir / "name", "\6team-a.documents");
}

v1::RecallReply ReplyTo(const fuzz::RecallShape& shape) {
  v1::RecallReply reply;
  reply.set_sequence(1);
  reply.set_epoch(1);
  v1::LayerPlacement* layer = reply.add_layers();
  layer->set_layer(shape.wants[0].layer);
  const uint32_t crc = Crc32c(fuzz::UnitPattern(UnitBytes(shape.spec)));
  for (const std::vector<uint32_t>& pages : shape.wants[0].pages) {
    v1::HeadPlacement* head = layer->add_heads();
    for (uint32_t slot = 0; slot < pages.size(); ++slot) {
      head->add_slots(slot);
      head->add_generations(1);
      head->add_pages(pages[slot]);
      head->add_replaced(-1);
      reply.add_unit_crc32c(crc);
    }
  }
  return reply;
}

void WriteServiceSeeds(const fs::path& dir) {
  auto seed = [&](char selector, const std::string& name, const std::string& bytes) {
    Write(dir / name, selector + bytes);
  };
  const fuzz::RecallShape shape;
  seed(0, "recall_units", shape.Request().SerializeAsString());
  v1::RecallRequest by_query;
  WantsToProto(
      std::vector<LayerWant>{
          {.layer = 1, .query = {1, 2, 3, 4, 5, 6, 7, 8}, .end_page = 9, .num_pages = 3}},
      &by_query);
  seed(0, "recall_query", by_query.SerializeAsString());

  v1::OpenSessionRequest open;
  wire::KvSpecToProto(SmallSpec(), open.mutable_spec());
  open.mutable_context()->set_open_context(5);
  open.set_slots_per_head(4);
  open.add_managed_layers(1);
  seed(1, "open", open.SerializeAsString());
  v1::ResyncRequest resync;
  MapToProto(ResidentMap({0, 1}, 2, 4), &resync);
  seed(1, "resync", resync.SerializeAsString());

  seed(2, "reply", ReplyTo(shape).SerializeAsString());

  v1::GenerateRequest generate;
  generate.mutable_token_ids()->add_ids(3);
  generate.set_max_new_tokens(5);
  generate.add_stop_token_ids(1);
  generate.mutable_sampling()->set_temperature(0.5f);
  generate.mutable_document()->set_name("n");
  seed(3, "generate", generate.SerializeAsString());

  const std::vector<SegmentKey> keys = ChainKeys({}, SmallSpec(), std::vector<TokenId>(11, 7));
  kvserver::Document document;
  document.chain_tip = keys.back();
  document.num_tokens = 11;
  document.model = "m";
  seed(4, "document_record", kvserver::EncodeDocument(document));
  document.ttl_seconds = 60;
  seed(4, "document_record_with_ttl", kvserver::EncodeDocument(document));
  seed(5, "segment_keys", kvserver::EncodeSegmentKeys(keys));
  const kvserver::DocumentName name{"c", "n", 1};
  seed(6, "document_key", kvserver::DocumentKey("default", name));
  seed(6, "reference_key", kvserver::ReferenceKey("default", keys[0], name));
  seed(6, "pending_delete_key", kvserver::PendingDeleteKey("default", keys[0]));
  seed(6, "collection_key", kvserver::CollectionKey("default", "c"));
  seed(7, "collection",
       kvserver::EncodeCollection(
           {.codec = kvserver::CodecParams{.id = kvserver::CodecId::kInt8}, .ttl_seconds = 60}));
}

void WriteRecordSeed(const fs::path& path, uint32_t num_tokens) {
  kvserver::SegmentRecord record;
  record.tenant = "default";
  record.spec = SmallSpec();
  record.tokens.assign(num_tokens, 5);
  record.unit_crc32c.assign(uint64_t{record.spec.num_layers} * record.units_per_layer(),
                            0x12345678);
  Write(path, kvserver::EncodeSegmentRecord(record));
}

void WriteExtentSeed(const fs::path& path) {
  kvserver::ExtentRecord record;
  record.location.runs = {{0, 4096, 8192}, {3, 65536, 4096}};
  record.location.bytes = 10240;
  record.unit_crc32c = {1, 2, 3, 4, 5};
  Write(path, kvserver::EncodeExtentRecord(record));
}

void WriteSafetensorsSeed(const fs::path& path) {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
      R"("b":{"dtype":"BF16","shape":[3],"data_offsets":[16,22]}})";
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(header.size() >> (8 * i)));
  Write(path, bytes + header + std::string(22, '\x3f'));
}

void WriteConfigSeeds(const fs::path& dir) {
  const std::string shape =
      R"("hidden_size":64,"intermediate_size":128,"num_hidden_layers":2,"num_attention_heads":4,)"
      R"("num_key_value_heads":2,"vocab_size":100,"max_position_embeddings":4096,"rms_norm_eps":1e-5)";
  Write(
      dir / "llama3.json",
      R"({"architectures":["LlamaForCausalLM"],"model_type":"llama",)" + shape +
          R"(,"rope_theta":500000.0,"rope_scaling":{"rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,)"
          R"("high_freq_factor":4.0,"original_max_position_embeddings":512}})");
  Write(
      dir / "qwen3_yarn.json",
      R"({"architectures":["Qwen3ForCausalLM"],"model_type":"qwen3","head_dim":32,"tie_word_embeddings":true,)" +
          shape +
          R"(,"rope_parameters":{"rope_theta":10000.0,"rope_type":"yarn","factor":4.0,)"
          R"("original_max_position_embeddings":1024}})");
  Write(dir / "index.json",
        R"({"metadata":{"total_size":10},"weight_map":{"a":"model-00001-of-00002.safetensors"}})");
  std::string tokenizer =
      R"({"format":"quire-words","version":1,"bos_id":0,"eos_id":1,"tokens":["<bos>","<eos>")";
  char name[16];
  for (int byte = 0; byte < 256; ++byte) {
    snprintf(name, sizeof name, ",\"<0x%02X>\"", byte);
    tokenizer += name;
  }
  Write(dir / "tokenizer.json", tokenizer + R"(," the","the"]})");
}

/// Units of which the last one does not compress.
void WriteEntropySeed(const fs::path& path) {
  const kvserver::EntropyShape shape = fuzz::kEntropyShape;
  std::vector<std::byte> raw(shape.raw_bytes());
  uint32_t noise = 1;
  for (size_t i = 0; i < raw.size(); ++i) {
    noise = noise * 1664525 + 1013904223;
    raw[i] = static_cast<std::byte>(i / shape.unit_bytes + 1 == shape.units ? noise >> 24 : i % 5);
  }
  const auto container = kvserver::EncodeEntropy(raw, shape);
  if (!container.ok()) std::abort();
  Write(path, std::string(reinterpret_cast<const char*>(container->data()), container->size()));
}

void WriteFrameSeeds(const fs::path& dir) {
  // The payload's size and the size of its slices less one stand in front.
  auto seed = [&](const std::string& name, const FrameHead& head, size_t payload_bytes) {
    Write(dir / name, std::string{static_cast<char>(payload_bytes), 2} + EncodeFrameHead(head) +
                          std::string(payload_bytes, 'p'));
  };
  seed("hello", {.kind = FrameKind::kHello, .amount = 1 << 25, .name = "t", .text = "0123456789"},
       0);
  seed("hello_reply", {.kind = FrameKind::kHelloReply, .id = 7, .amount = 1 << 20, .name = "t"}, 0);
  seed("request",
       {.kind = FrameKind::kRequest,
        .priority = Priority::kCorrection,
        .id = 1,
        .amount = 1'000'000'000,
        .landing = 2,
        .landing_bytes = 4096,
        .max_parts = 8,
        .name = "quire.v1.Session/Recall",
        .text = "control"},
       0);
  seed("part",
       {.kind = FrameKind::kPart, .id = 1, .text = "c", .places = {{0, 4}, {100, 1}, {50, 5}}}, 10);
  FrameHead end{.kind = FrameKind::kEnd, .id = 1};
  SetFrameStatus(WithRetryAfter(ResourceExhausted("busy"), std::chrono::seconds(1)), &end);
  seed("end", end, 0);
  seed("cancel", {.kind = FrameKind::kCancel, .id = 1}, 0);
  seed("credit", {.kind = FrameKind::kCredit, .id = 1, .amount = 65536}, 0);
}

void WriteTraceSeeds(const fs::path& dir) {
  Write(dir / "three_requests",
        R"({"timestamp":0,"input_length":1300,"output_length":52,"hash_ids":[0,14,15]})"
        "\n"
        R"({"timestamp":27482.5,"input_length":512,"output_length":0,"hash_ids":[9],"more":null})"
        "\n\n"
        R"({"timestamp":3,"input_length":600,"output_length":1,"hash_ids":[0]})"
        "\r\n");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: make_corpus DIRECTORY\n";
    return 2;
  }
  const fs::path root = argv[1];
  WriteWireSeeds(root / "wire_fuzz");
  WriteServiceSeeds(root / "service_fuzz");
  WriteRecordSeed(root / "segment_record_fuzz" / "full", 8);
  WriteRecordSeed(root / "segment_record_fuzz" / "short", 5);
  WriteExtentSeed(root / "segment_record_fuzz" / "extent");
  Write(root / "volume_header_fuzz" / "volume",
        kvserver::EncodeVolumeHeader({.volume = 3, .size_bytes = 256 << 20}));
  WriteSafetensorsSeed(root / "safetensors_fuzz" / "two_tensors");
  WriteConfigSeeds(root / "config_fuzz");
  WriteEntropySeed(root / "entropy_fuzz" / "three_units");
  WriteFrameSeeds(root / "frame_fuzz");
  WriteTraceSeeds(root / "mooncake_trace_fuzz");
}
