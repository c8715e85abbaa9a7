// SPDX-License-Identifier: Apache-2.0
#include "bench/codec/codec_wire.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "apps/kit/data_dir.h"
#include "bench/kit/gqa_spec.h"
#include "bench/kit/median.h"
#include "common/base/memory/payload_cutter.h"
#include "common/base/random.h"
#include "kernels/api/place_units.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kvserver/embedded/embedded_store.h"
#include "kvserver/store/codec/codec.h"
#include "quire/client.h"
#include "quire/connect.h"
#include "quire/layout.h"
#include "quire/page_name.h"

namespace quire::bench {
namespace {

constexpr uint32_t kDocuments = 10;
constexpr uint32_t kDocumentPages = 16;
constexpr uint32_t kStepPages = 16;    ///< Pages of a KV head that a step attends to.
constexpr uint32_t kChangedPages = 4;  ///< Those of them that it did not hold.
constexpr UnitCodec kStored[] = {UnitCodec::kRaw, UnitCodec::kInt8, UnitCodec::kInt4};

KvSpec WireSpec() {
  return GqaSpec("bench-codec-wire", {.layers = 4, .query_heads = 32, .kv_heads = 8});
}

/// Finite f16 elements, and tokens that no other seed has.
Status PutDocument(Client& client, const KvSpec& spec, std::string_view collection, uint64_t seed,
                   SegmentKey* tip) {
  SeededRandom random(seed);
  std::vector<TokenId> tokens(spec.segment_tokens());
  std::vector<std::byte> bytes(SegmentBytes(spec, spec.segment_pages));
  for (uint32_t page = 0; page < kDocumentPages; page += spec.segment_pages) {
    for (TokenId& token : tokens) token = static_cast<TokenId>(random.Below(32000));
    for (size_t i = 0; i < bytes.size(); i += sizeof(uint64_t)) {
      const uint64_t value = random.Next() & 0xbfffbfffbfffbfffull;
      std::memcpy(bytes.data() + i, &value, sizeof value);
    }
    Payload payload;
    payload.Append(Slice{bytes, nullptr});
    QUIRE_ASSIGN_OR_RETURN(
        *tip, client.PutSegment(spec, *tip, tokens, payload, PutDurability::kMemory, collection));
  }
  return OkStatus();
}

/// Puts units that came into pools [slots][p][n_kv][d].
class UnitPlacer {
 public:
  UnitPlacer(const KvSpec& spec, uint32_t slots)
      : spec_(spec), slots_(slots), keys_(PoolBytes()), values_(PoolBytes()) {}

  Status Place(const ClientSession& session, const RecallPart& part) {
    PayloadCutter cutter(part.payload);
    for (size_t first = 0; first < part.placements.size();) {
      const UnitCodec codec = part.CodecOf(first);
      size_t end = first;
      addresses_.clear();
      places_.clear();
      for (; end < part.placements.size() && part.CodecOf(end) == codec; ++end) {
        addresses_.push_back(AddressOf(cutter.Cut(session.unit_bytes(codec))));
        places_.push_back({.slot = static_cast<int32_t>(part.placements[end].slot),
                           .kv_head = static_cast<int32_t>(part.placements[end].head)});
      }
      if (kernels::CpuKernels().place_units({.unit_ptrs = addresses_.data(),
                                             .placements = places_.data(),
                                             .k_pool = keys_.data(),
                                             .v_pool = values_.data(),
                                             .num_slots = slots_,
                                             .n_units = std::ssize(places_),
                                             .n_kv = spec_.num_kv_heads,
                                             .shape = ShapeOf(spec_),
                                             .codec = codec}) != kernels::OpStatus::kOk) {
        return Internal("units were not placed");
      }
      cut_units_.clear();
      first = end;
    }
    return part.IsValid() ? OkStatus() : DataLoss("lent units did not stay valid");
  }

 private:
  size_t PoolBytes() const { return slots_ * spec_.num_kv_heads * UnitBytes(spec_) / 2; }
  /// A unit in several pieces is copied.
  const void* AddressOf(const Payload& unit) {
    if (unit.slices().size() == 1) return unit.slices().front().bytes.data();
    std::vector<std::byte>& copy = cut_units_.emplace_back(unit.size_bytes());
    unit.CopyTo(copy.data());
    return copy.data();
  }

  const KvSpec spec_;
  const uint32_t slots_;
  std::vector<std::byte> keys_, values_;
  std::vector<const void*> addresses_;
  std::vector<kernels::UnitPlacement> places_;
  std::vector<std::vector<std::byte>> cut_units_;
};

class WireBench {
 public:
  explicit WireBench(uint32_t rounds) : rounds_(rounds), placer_(spec_, kAllPages) {}

  Status Store(Client& client) {
    for (const UnitCodec codec : kStored) {
      const std::string name(kvserver::Name(codec));
      QUIRE_RETURN_IF_ERROR(client.SetCollection(name, {.codec = name}).status());
      SequenceSpec& sequence = stored_.emplace_back();
      for (uint32_t i = 0; i < kDocuments; ++i) {
        SegmentKey tip = kRootKey;
        const uint64_t seed = (i + 1) * 100 + static_cast<uint64_t>(codec);
        QUIRE_RETURN_IF_ERROR(PutDocument(client, spec_, name, seed, &tip));
        sequence.members.push_back({.context = tip});
      }
    }
    return OkStatus();
  }

  StatusOr<std::vector<WireFigures>> Measure(Client& client, const std::string& transport) {
    std::vector<WireFigures> all;
    for (size_t i = 0; i < std::size(kStored); ++i) {
      for (const bool by_server : {false, true}) {
        if (by_server && kStored[i] == UnitCodec::kRaw) continue;
        WireFigures figures{
            .transport = transport, .stored = kStored[i], .decoded_by_server = by_server};
        QUIRE_RETURN_IF_ERROR(MeasureReuse(client, stored_[i], &figures));
        QUIRE_RETURN_IF_ERROR(MeasureSteps(client, stored_[i], &figures));
        all.push_back(figures);
      }
    }
    return all;
  }

 private:
  static constexpr uint32_t kAllPages = kDocuments * kDocumentPages;

  StatusOr<std::unique_ptr<ClientSession>> Open(Client& client, const SequenceSpec& documents,
                                                const WireFigures& figures, uint32_t slots) {
    return client.OpenSession({&documents, 1},
                              {.spec = spec_,
                               .slots_per_head = slots,
                               .codecs = figures.decoded_by_server ? CodecSet() : CodecSet::All()});
  }
  /// Names of `count` pages from the `first` on, around the end.
  PageLists Pages(uint32_t first, uint32_t count) const {
    std::vector<uint32_t> names;
    for (uint32_t i = first; i < first + count; ++i) {
      names.push_back(PageName(i % kAllPages / kDocumentPages, i % kDocumentPages));
    }
    std::ranges::sort(names);
    PageLists lists;
    for (uint32_t head = 0; head < spec_.num_kv_heads; ++head) lists.AppendHead(names);
    return lists;
  }
  /// Takes what `want` brings, part by part. Returns its payload bytes.
  StatusOr<uint64_t> Read(ClientSession& session, LayerWant want) {
    std::vector<LayerWant> wants;
    wants.push_back(std::move(want));
    QUIRE_ASSIGN_OR_RETURN(const auto recall, session.Start(std::move(wants)));
    uint64_t bytes = 0;
    for (;;) {
      QUIRE_ASSIGN_OR_RETURN(const std::optional<RecallPart> part, recall->Next());
      if (!part) return bytes;
      QUIRE_RETURN_IF_ERROR(placer_.Place(session, *part));
      session.Applied(*part);
      bytes += part->payload.size_bytes();
    }
  }
  Status MeasureReuse(Client& client, const SequenceSpec& documents, WireFigures* figures) {
    std::vector<Duration> times;
    for (uint32_t round = 0; round <= rounds_; ++round) {  // The first one warms up.
      QUIRE_ASSIGN_OR_RETURN(const auto session, Open(client, documents, *figures, kAllPages));
      const TimePoint start = SystemClock().Now();
      QUIRE_ASSIGN_OR_RETURN(figures->reuse_bytes, Read(*session, {.num_layers = spec_.num_layers,
                                                                   .pages = Pages(0, kAllPages)}));
      if (round > 0) times.push_back(SystemClock().Now() - start);
    }
    figures->reuse_time = Median(times);
    return OkStatus();
  }
  Status MeasureSteps(Client& client, const SequenceSpec& documents, WireFigures* figures) {
    QUIRE_ASSIGN_OR_RETURN(const auto session, Open(client, documents, *figures, kStepPages));
    std::vector<Duration> times;
    for (uint32_t step = 0; step <= 8 * rounds_; ++step) {  // The first one fills the slots.
      const TimePoint start = SystemClock().Now();
      QUIRE_ASSIGN_OR_RETURN(figures->step_bytes,
                             Read(*session, {.pages = Pages(step * kChangedPages, kStepPages)}));
      if (step > 0) times.push_back(SystemClock().Now() - start);
    }
    figures->step_time = Median(times);
    return OkStatus();
  }

  const KvSpec spec_ = WireSpec();
  const uint32_t rounds_;
  UnitPlacer placer_;
  std::vector<SequenceSpec> stored_;  ///< Documents in each of kStored.
};

const WireFigures* Find(const std::vector<WireFigures>& figures, const std::string& transport,
                        UnitCodec stored, bool decoded_by_server) {
  const auto found = std::ranges::find_if(figures, [&](const WireFigures& one) {
    return one.transport == transport && one.stored == stored &&
           one.decoded_by_server == decoded_by_server;
  });
  return found == figures.end() ? nullptr : &*found;
}

double Millis(Duration time) { return std::chrono::duration<double, std::milli>(time).count(); }

}  // namespace

StatusOr<std::vector<WireFigures>> MeasureCodecWire(const std::string& data_dir, uint32_t rounds) {
  QUIRE_ASSIGN_OR_RETURN(const auto directory, cli::DataDir::Make(data_dir));
  QUIRE_ASSIGN_OR_RETURN(const auto store, EmbeddedStore::Open({.data_dir = directory->path(),
                                                                .dram_bytes = 512u << 20}));
  QUIRE_RETURN_IF_ERROR(store->Listen({}));
  QUIRE_ASSIGN_OR_RETURN(const auto control, ConnectGrpc(store->address()));
  QUIRE_ASSIGN_OR_RETURN(const auto writer, Client::Create({.transport = store->transport()}));
  WireBench bench(rounds);
  QUIRE_RETURN_IF_ERROR(bench.Store(*writer));
  std::vector<WireFigures> all;
  for (const char* transport : {"shm", "grpc", "ucx"}) {
    auto data = ConnectData(control, {.transport = transport,
                                      .ucx_within_host = true,
                                      .control_address = store->address(),
                                      .spin = kWorkerSpin});
    if (!data.ok()) continue;  // Not built here, or no device for it.
    QUIRE_ASSIGN_OR_RETURN(
        const auto client,
        Client::Create({.transport = control, .data_transport = std::move(data->transport)}));
    QUIRE_ASSIGN_OR_RETURN(const std::vector<WireFigures> figures,
                           bench.Measure(*client, transport));
    all.insert(all.end(), figures.begin(), figures.end());
  }
  return all;
}

void AddCodecWire(const std::vector<WireFigures>& figures, cli::Json* json) {
  for (const WireFigures& one : figures) {
    const std::string codec(kvserver::Name(one.stored));
    cli::Json& at =
        (*json)["wire"][one.transport][codec + (one.decoded_by_server ? "_decoded_by_server" : "")];
    at = {{"reuse_bytes", one.reuse_bytes},
          {"reuse_ms", Millis(one.reuse_time)},
          {"step_bytes", one.step_bytes},
          {"step_ms", Millis(one.step_time)}};
    const WireFigures* const raw = Find(figures, one.transport, UnitCodec::kRaw, false);
    if (one.stored == UnitCodec::kRaw || one.decoded_by_server || raw == nullptr) continue;
    (*json)[codec + "_wire_vs_f16"] =
        static_cast<double>(one.reuse_bytes) / static_cast<double>(raw->reuse_bytes);
    const std::string vs = "_vs_f16_" + one.transport;
    (*json)[codec + "_reuse_time" + vs] = Millis(one.reuse_time) / Millis(raw->reuse_time);
    (*json)[codec + "_step_time" + vs] = Millis(one.step_time) / Millis(raw->step_time);
    const WireFigures* const decoded = Find(figures, one.transport, one.stored, true);
    (*json)[codec + "_reuse_time_vs_decoding_server_" + one.transport] =
        Millis(one.reuse_time) / Millis(decoded->reuse_time);
  }
}

}  // namespace quire::bench
