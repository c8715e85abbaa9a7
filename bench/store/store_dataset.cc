// SPDX-License-Identifier: Apache-2.0
#include "bench/store/store_dataset.h"

#include <utility>

#include "bench/kit/gqa_spec.h"
#include "common/base/random.h"
#include "kvserver/store/payload/engine/engine_choice.h"
#include "quire/layout.h"

namespace quire::bench {
namespace {

using kvserver::PageStore;
using kvserver::PageStoreImpl;

// Never reached, so that data measured on SSD stays there.
constexpr uint32_t kNeverPromote = 1u << 30;

}  // namespace

std::vector<std::byte> MakeSegmentBytes() {
  std::vector<std::byte> bytes(kSegmentBytes);
  SeededRandom random(1);
  for (size_t i = 0; i < bytes.size(); i += 2) {
    const uint64_t bits = random.Next();
    bytes[i] = static_cast<std::byte>(bits);
    bytes[i + 1] = static_cast<std::byte>((bits >> 8) & 0xbb);  // Avoids an exponent of all ones.
  }
  return bytes;
}

KvSpec SpecOfUnits(uint64_t unit_bytes) {
  KvSpec spec = GqaSpec("bench-store", {.layers = kSegmentBytes / kExtentBytes, .query_heads = 32});
  spec.page_tokens = static_cast<uint32_t>(unit_bytes / (2 * spec.head_dim * 2));
  spec.num_kv_heads = static_cast<uint32_t>(kExtentBytes / unit_bytes / spec.segment_pages);
  return spec;
}

Dataset::Dataset(const StoreBenchOptions& options, uint64_t unit_bytes, const std::string& name)
    : options_(options),
      unit_bytes_(unit_bytes),
      spec_(SpecOfUnits(unit_bytes)),
      directory_(options.directory, name) {}

StatusOr<std::unique_ptr<Dataset>> Dataset::Make(const StoreBenchOptions& options,
                                                 uint64_t unit_bytes, uint64_t bytes,
                                                 const std::string& name) {
  std::unique_ptr<Dataset> dataset(new Dataset(options, unit_bytes, name));
  QUIRE_ASSIGN_OR_RETURN(kvserver::EngineChoice choice,
                         kvserver::ChooseEngine(kvserver::EngineKind::kAuto,
                                                {.queue_depth = options.depth_of_call()}));
  dataset->engine_ = std::move(choice.engine);
  QUIRE_RETURN_IF_ERROR(dataset->Reopen());
  for (uint64_t put = 0; put < bytes; put += kSegmentBytes) QUIRE_RETURN_IF_ERROR(dataset->Put());
  return dataset;
}

Status Dataset::Reopen() {
  store_.reset();
  PageStore::Options options;
  options.ssd_path = directory_.path();
  options.dram_bytes = options_.dram_bytes();
  options.dram_prefault = true;  // No turn then includes the first use of memory.
  options.promote_after_touches = kNeverPromote;
  QUIRE_ASSIGN_OR_RETURN(store_,
                         PageStoreImpl::Open(options, {.env = nullptr, .engine = engine_.get()}));
  return OkStatus();
}

Status Dataset::Pin(uint64_t bytes) {
  const std::span<const SegmentKey> keys(keys_);
  return store_->PinSegments("default", keys.first(bytes / kSegmentBytes));
}

StatusOr<SegmentKey> Dataset::PutSegment(uint64_t number, kvserver::Durability durability) {
  SeededRandom random(number);
  std::vector<TokenId> tokens(spec_.segment_tokens());
  for (TokenId& token : tokens) token = static_cast<TokenId>(random.Below(32000));
  kvserver::PutSegmentArgs args;
  args.spec = &spec_;
  args.tokens = tokens;
  args.payload = segment_;
  args.durability = durability;
  QUIRE_ASSIGN_OR_RETURN(const kvserver::PutSegmentResult put, store_->PutSegment("default", args));
  return put.key;
}

Status Dataset::Put() {
  QUIRE_ASSIGN_OR_RETURN(const SegmentKey key,
                         PutSegment(keys_.size(), kvserver::Durability::kMemory));
  keys_.push_back(key);
  return OkStatus();
}

kvserver::UnitAddress Dataset::Unit(uint64_t number) const {
  const uint64_t per_extent = kExtentBytes / unit_bytes_;
  const uint64_t per_segment = kSegmentBytes / unit_bytes_;
  return {.segment = keys_[number / per_segment],
          .layer = static_cast<uint32_t>(number % per_segment / per_extent),
          .unit = static_cast<uint32_t>(number % per_extent)};
}

}  // namespace quire::bench
