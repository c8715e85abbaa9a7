// SPDX-License-Identifier: Apache-2.0
//
// Writes the seed corpora: `make_corpus tests/fuzz/corpus`. Each seed is a valid input, so that its
// mutations pass the first checks.
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "client/recall/recall_codec.h"
#include "common/base/memory/checksum.h"
#include "common/base/retry_hint.h"
#include "common/wire/convert.h"
#include "common/wire/convert_context.h"
#include "common/wire/convert_document.h"
#include "common/wire/convert_event.h"
#include "common/wire/lane_records.h"
#include "common/wire/unit_list.h"
#include "common/wire/wire_split.h"
#include "kvserver/registry/collections/collection_settings.h"
#include "kvserver/registry/rows/document_keys.h"
#include "kvserver/registry/rows/document_record.h"
#include "kvserver/store/codec/entropy.h"
#include "kvserver/store/metadata/segment_record.h"
#include "kvserver/store/payload/volume/volume_header.h"
#include "kvserver/store/ssd/extent_record.h"
#include "quire/client.h"
#include "quire/v1/events.pb.h"
#include "quire/v1/session.pb.h"
#include "quire/v1/store.pb.h"
#include "quire/v1/worker.pb.h"
#include "tests/fuzz/entropy_shape.h"
#include "tests/fuzz/recall_shape.h"
#include "transport/frames/frame.h"
#include "transport/shm/shm_wire.h"
#include "transport/ucx/ucx_wire.h"

namespace {

using namespace quire;
using namespace quire::internal;
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

KvSpec LongRopeSpec() {
  KvSpec spec = SmallSpec();
  spec.rope.scaling = RopeScaling::kLongRope;
  spec.rope.pair_factors = {1, 2, 4, 8.5};
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
  spec.Clear();
  wire::KvSpecToProto(LongRopeSpec(), &spec);
  seed(0, "kv_spec_longrope", spec);

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

/// A reply that selects pages 0 and 4 for the first head of layer 0, and delivers the missing
/// units.
v1::RecallReply ReplyTo(const fuzz::RecallShape& shape) {
  v1::RecallReply reply;
  reply.set_exchange(1);
  reply.set_epoch(1);
  const PageLists selected = {{0, 4}, {}};
  const uint32_t crc = Crc32c(fuzz::UnitPattern(UnitBytes(shape.spec)));
  for (uint32_t layer = 0; layer < 2; ++layer) {
    v1::LanePlacement& lane = *reply.add_lanes();
    lane.set_layer(layer);
    if (layer == 0) wire::EncodeUnitList(selected, lane.mutable_selected());
    const PageLists& pages = layer == 0 ? selected : shape.wants[1].pages;
    wire::LaneUnits units;
    for (uint32_t head = 0; head < pages.num_heads(); ++head) {
      lane.add_counts(static_cast<uint32_t>(pages.Head(head).size()));
      for (uint32_t slot = 0; slot < pages.Head(head).size(); ++slot) {
        units.slots.push_back(slot);
        units.generations.push_back(1);
        units.pages.push_back(pages.Head(head)[slot]);
        units.replaced.push_back(-1);
        units.crc32c.push_back(crc);
      }
    }
    wire::EncodeLaneUnits(units, lane.mutable_units());
  }
  return reply;
}

void WriteUnitListSeeds(const fs::path& dir) {
  const auto seed = [&](char heads, const std::string& name, const std::string& bytes) {
    Write(dir / name, heads + std::string(1, '\1') + bytes);
  };
  std::string bytes;
  wire::EncodeUnitList({{5, 134, 151}, {5, 6, 8, 13}, {5, 6, 8, 13}, {}}, &bytes);
  seed(4, "four_heads", bytes);
  wire::EncodeLaneUnits({.slots = {0, 1},
                         .generations = {1, 2},
                         .pages = {7, 9},
                         .replaced = {-1, 5},
                         .crc32c = {11, 12}},
                        &bytes);
  seed(2, "lane_units", bytes);
  wire::EncodeLaneSlots(std::vector<int32_t>{-1, 7, 9}, std::vector<uint32_t>{0, 1, 4}, &bytes);
  seed(3, "lane_slots", bytes);
}

/// Writes sequences of calls of one session: kind, size, message (session_fuzz.cc).
void WriteSessionSeeds(const fs::path& dir) {
  std::string calls;
  const auto add = [&](char kind, const auto& message) {
    const std::string bytes = message.SerializeAsString();
    calls += kind;
    calls += static_cast<char>(bytes.size());
    calls += bytes;
  };
  v1::RecallRequest recall;
  recall.set_epoch(1);
  recall.set_exchange(1);
  v1::LayerWant& units = *recall.add_wants();
  units.set_num_layers(2);
  units.add_applied(0);
  units.add_applied(0);
  wire::EncodeUnitList({{0, 2, (1u << 24) | 1}, {3}}, units.mutable_units());
  add(0, recall);
  v1::ResyncRequest resync;
  resync.set_epoch(2);
  v1::LaneMap& map = *resync.add_lanes();
  map.set_layer(2);
  map.set_applied(1);
  wire::EncodeLaneSlots(std::vector<int32_t>{-1, 1, 2, 3, -1, -1, 0, -1},
                        std::vector<uint32_t>{0, 1, 1, 1, 0, 0, 7, 0}, map.mutable_slots());
  add(1, resync);
  Write(dir / "units", calls);

  calls.clear();
  units.set_num_layers(1);
  units.clear_applied();
  units.add_applied(0);
  wire::EncodeUnitList({{2}, {}}, units.mutable_held());
  add(0, recall);
  Write(dir / "held", calls);

  calls.clear();
  v1::AddSequenceRequest more;
  more.mutable_sequence()->set_slots_per_head(2);
  add(2, more);
  v1::RemoveSequenceRequest less;
  less.set_sequence(1);
  add(3, less);
  recall.clear_wants();
  v1::LayerWant& want = *recall.add_wants();
  want.add_applied(0);
  v1::QuerySelection& query = *want.mutable_query();
  query.set_dtype(v1::DTYPE_BF16);
  query.set_queries(std::string(64, '\x3f'));
  query.add_candidates()->set_end_page(6);
  v1::CandidateRange& second = *query.add_candidates();
  second.set_member(1);
  second.set_end_page(3);
  query.set_num_pages(3);
  query.set_digest(v1::DIGEST_KIND_CENTRE_RADIUS);
  add(0, recall);
  Write(dir / "query", calls);

  calls.clear();
  query.add_kept_heads(1);
  add(0, recall);
  Write(dir / "kept_heads", calls);

  calls.clear();
  v1::ScorePagesRequest scores;
  scores.add_layers(2);
  *scores.mutable_candidates() = query.candidates();
  scores.set_dtype(v1::DTYPE_BF16);
  scores.set_queries(std::string(64, '\x3f'));
  add(4, scores);
  Write(dir / "scores", calls);
}

void WriteServiceSeeds(const fs::path& dir) {
  auto seed = [&](char selector, const std::string& name, const std::string& bytes) {
    Write(dir / name, selector + bytes);
  };
  const fuzz::RecallShape shape;
  seed(0, "recall", shape.Request().SerializeAsString());

  v1::OpenSessionRequest open;
  wire::KvSpecToProto(SmallSpec(), open.mutable_spec());
  v1::SequenceSpec& sequence = *open.add_sequences();
  sequence.set_slots_per_head(2);
  v1::SequenceMember& member = *sequence.add_members();
  member.mutable_context()->set_open_context(5);
  member.set_position_offset(-7);
  open.set_slots_per_head(4);
  open.add_managed_layers(1);
  open.mutable_hold_digests()->set_kind(v1::DIGEST_KIND_DISC);
  open.mutable_hold_digests()->add_layers(1);
  seed(1, "open", open.SerializeAsString());
  v1::ResyncRequest resync;
  WorkerSlots map = shape.Map();
  map.lane(0, 1).applied = 3;
  MapToProto(map, &resync);
  resync.set_epoch(2);
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
  Document document;
  document.chain_tip = keys.back();
  document.num_tokens = 11;
  document.model = "m";
  seed(4, "document_record", kvserver::EncodeDocument(document));
  document.ttl_seconds = 60;
  seed(4, "document_record_with_ttl", kvserver::EncodeDocument(document));
  seed(5, "segment_keys", kvserver::EncodeSegmentKeys(keys));
  const DocumentName name{"c", "n", 1};
  seed(6, "document_key", kvserver::DocumentKey("default", name));
  seed(6, "reference_key", kvserver::ReferenceKey("default", keys[0], name));
  seed(6, "pending_delete_key", kvserver::PendingDeleteKey("default", keys[0]));
  seed(6, "collection_key", kvserver::CollectionKey("default", "c"));
  seed(7, "collection",
       kvserver::EncodeCollection(
           {.codec = kvserver::CodecParams{.id = kvserver::CodecId::kInt8}, .ttl_seconds = 60}));
}

void WriteRecordSeed(const fs::path& path, const KvSpec& spec, uint32_t num_tokens) {
  kvserver::SegmentRecord record;
  record.tenant = "default";
  record.spec = spec;
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
  Write(
      dir / "longrope.json",
      R"({"architectures":["LlamaForCausalLM"],"head_dim":8,"original_max_position_embeddings":512,)" +
          shape +
          R"(,"rope_scaling":{"type":"longrope","short_factor":[1,1,1,1.5],"long_factor":[1,2,4,8.5]}})");
  Write(
      dir / "layer_types.json",
      R"({"architectures":["Qwen3ForCausalLM"],"head_dim":32,"layer_types":["full_attention","sliding_attention"],)" +
          shape +
          R"(,"sliding_window":4096,"rope_parameters":{"full_attention":{"rope_theta":5e5},)"
          R"("sliding_attention":{"rope_theta":5e5}}})");
  Write(dir / "latent.json",
        R"({"architectures":["DeepseekV3ForCausalLM"],"model_type":"deepseek_v3","hidden_size":64,)"
        R"("intermediate_size":128,"num_hidden_layers":2,"num_attention_heads":4,"vocab_size":100,)"
        R"("max_position_embeddings":4096,"first_k_dense_replace":2,"q_lora_rank":24,)"
        R"("kv_lora_rank":16,"qk_rope_head_dim":8,"qk_nope_head_dim":12,"v_head_dim":12,)"
        R"("rope_theta":10000.0,"rope_scaling":{"type":"yarn","factor":40,"mscale":1.0,)"
        R"("mscale_all_dim":1.0,"original_max_position_embeddings":512}})");
  Write(dir / "generation_config.json", R"({"eos_token_id":[1,2],"temperature":0.6})");
  Write(dir / "tokenizer_config.json",
        R"({"eos_token":{"content":"</s>"},"added_tokens_decoder":{"1":{"content":"</s>"}}})");
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
  Write(
      dir / "hf_tokenizer.json",
      R"({"added_tokens":[{"id":5,"content":"<s>","special":true}],"normalizer":{"type":"NFC"},)"
      R"("pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split","behavior":"Isolated",)"
      R"("pattern":{"Regex":"\\p{L}+|\\s"}},{"type":"ByteLevel","add_prefix_space":false}]},)"
      R"("decoder":{"type":"ByteLevel"},"post_processor":{"type":"TemplateProcessing","single":)"
      R"([{"SpecialToken":{"id":"<s>"}},{"Sequence":{"id":"A"}}],"special_tokens":{"<s>":{"ids":[5]}}},)"
      R"("model":{"type":"BPE","vocab":{"a":0,"b":1,"c":2,"ab":3,"abc":4},"merges":["a b",["ab","c"]]}})");
}

/// Writes units of which the last one does not compress.
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
  // Precedes the frame with the payload's size and the size of its slices less one.
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
  seed("traced",
       {.kind = FrameKind::kRequest,
        .id = 2,
        .amount = 1'000'000'000,
        .max_parts = 1,
        .name = "quire.v1.Store/Fetch",
        .trace = {.trace_id = {1, 2, 3}, .span_id = {4, 5}, .sampled = true}},
       0);
  seed("part",
       {.kind = FrameKind::kPart, .id = 1, .text = "c", .places = {{0, 4}, {100, 1}, {50, 5}}}, 10);
  FrameHead end{.kind = FrameKind::kEnd, .id = 1};
  SetFrameStatus(WithRetryAfter(ResourceExhausted("busy"), std::chrono::seconds(1)), &end);
  seed("end", end, 0);
  seed("cancel", {.kind = FrameKind::kCancel, .id = 1}, 0);
  seed("credit", {.kind = FrameKind::kCredit, .id = 1, .amount = 65536}, 0);
}

/// Hints, requests and replies about events, by their first byte (hints_events_fuzz.cc).
void WriteHintsEventsSeeds(const fs::path& dir) {
  auto seed = [&](char selector, const std::string& name,
                  const google::protobuf::Message& message) {
    Write(dir / name, selector + message.SerializeAsString());
  };
  v1::Hints hints;
  wire::HintsToProto(
      {.conversation = "agent-7", .priority = KeepPriority::kHigh, .keep_seconds = 600}, &hints);
  seed(0, "hints", hints);
  v1::FollowRequest follow;
  follow.set_after(7);
  follow.set_max_events(100);
  follow.set_wait_millis(1000);
  seed(1, "follow", follow);
  const SegmentKey key = {1, 2, 3};
  v1::ListSegmentsRequest list;
  list.set_after(wire::KeyToBytes(key));
  seed(1, "list", list);
  v1::FollowReply events;
  wire::EventToProto({.position = 3, .kind = SegmentEventKind::kGap}, events.add_events());
  wire::EventToProto({.position = 6, .time_unix_micros = 9, .segment = key, .bytes = 4096},
                     events.add_events());
  wire::EventToProto({.position = 7, .kind = SegmentEventKind::kEvicted, .segment = key},
                     events.add_events());
  events.set_position(7);
  seed(2, "events", events);
  v1::ListSegmentsReply segments;
  wire::ListedToProto({.segment = key, .bytes = 4096, .in_dram = true}, segments.add_segments());
  seed(3, "segments", segments);
}

void WriteTraceparentSeeds(const fs::path& dir) {
  const std::string ids = "0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331";
  Write(dir / "recorded", "00-" + ids + "-01");
  Write(dir / "later_version", "01-" + ids + "-00-more");
}

void WriteShmPacketSeeds(const fs::path& dir) {
  auto seed = [&](const std::string& name, char server, const std::vector<std::byte>& bytes,
                  const std::string& payload) {
    const std::string packets(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    Write(dir / name, std::string({server, '\x05'}) + packets + payload);
  };
  std::vector<std::byte> bytes;
  const std::vector<ShmDescriptor> inline_slices = {{.bytes = 3}, {.bytes = 4}};
  AppendShmPacket({.bytes = 7, .landing = 2}, "head", inline_slices, std::vector<uint64_t>{0, 64},
                  &bytes);
  seed("inline_frame", 1, bytes, "oneslot");
  bytes.clear();
  AppendShmPacket({.type = ShmPacketType::kGreeting, .number = kShmVersion, .bytes = 1 << 20}, "",
                  {}, {}, &bytes);
  AppendShmPacket({.type = ShmPacketType::kLeaseChannel, .bytes = 60'000'000}, "", {}, {}, &bytes);
  AppendShmPacket({.type = ShmPacketType::kRegion, .number = 1, .bytes = 4096}, "", {}, {}, &bytes);
  AppendShmPacket({.lease = 9}, "units",
                  std::vector<ShmDescriptor>{{.offset = 64, .bytes = 32, .region = 1}}, {}, &bytes);
  seed("from_server", 0, bytes, "");
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

/// Writes calls of four bytes (ingest_fuzz.cc).
void WriteIngestSeeds(const fs::path& dir) {
  const auto append = [](char first_page, char pages, char layers) {
    return std::string{'\0', first_page, static_cast<char>(pages - 1), layers};
  };
  const std::string seal = {'\x0f', '\0', '\0', '\0'};
  Write(dir / "layer_by_layer", append(0, 3, 1) + append(3, 3, 4) + append(0, 3, 6) +
                                    append(3, 3, 3) + append(0, 3, 7) + seal + seal);
  const std::string whole = {'\1', '\0', '\2', '\0'};
  Write(dir / "pages_over_layers",
        append(0, 2, 2) + whole + append(3, 1, 1) + seal + append(3, 1, 6) + seal);
}

/// Uses the fuzzer's secret. The fuzzer itself signs the keys.
void WriteUcxSeeds(const fs::path& dir) {
  auto seed = [&](char selector, const std::string& name, const auto& bytes) {
    Write(dir / name,
          selector + std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  };
  const UcxSecret secret = {1, 2, 3};
  seed(0, "header",
       EncodeUcxHeader(
           {.sequence = 7, .payload_bytes = 40, .index_bytes = 16, .head_bytes = 8, .landing = 1}));
  std::vector<std::byte> index;
  AppendUcxPlace({0, 4000}, &index);
  AppendUcxPlace({8192, 96}, &index);
  seed(1, "index", index);
  seed(2, "hello", EncodeUcxHello({{}, true, 1 << 20}));
  seed(3, "welcome", EncodeUcxWelcome({{}, secret, true, 1 << 20}));
  const std::string key = EncodeUcxLandingKey(
      {.serial = 1, .landing = 2, .address = 4096, .bytes = 8192, .remote_key = "remote"}, secret);
  seed(4, "key", key);
  seed(5, "key_to_sign", key.substr(0, key.size() - 32));
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
  WriteSessionSeeds(root / "session_fuzz");
  WriteUnitListSeeds(root / "unit_list_fuzz");
  WriteHintsEventsSeeds(root / "hints_events_fuzz");
  WriteTraceparentSeeds(root / "traceparent_fuzz");
  WriteRecordSeed(root / "segment_record_fuzz" / "full", SmallSpec(), 8);
  WriteRecordSeed(root / "segment_record_fuzz" / "short", SmallSpec(), 5);
  WriteRecordSeed(root / "segment_record_fuzz" / "longrope", LongRopeSpec(), 5);
  WriteExtentSeed(root / "segment_record_fuzz" / "extent");
  Write(root / "volume_header_fuzz" / "volume",
        kvserver::EncodeVolumeHeader({.volume = 3, .size_bytes = 256 << 20}));
  WriteSafetensorsSeed(root / "safetensors_fuzz" / "two_tensors");
  WriteConfigSeeds(root / "config_fuzz");
  WriteEntropySeed(root / "entropy_fuzz" / "three_units");
  WriteFrameSeeds(root / "frame_fuzz");
  WriteShmPacketSeeds(root / "shm_packet_fuzz");
  WriteTraceSeeds(root / "mooncake_trace_fuzz");
  WriteIngestSeeds(root / "ingest_fuzz");
  WriteUcxSeeds(root / "ucx_frame_fuzz");
}
