// SPDX-License-Identifier: Apache-2.0
#include "kvserver/service/replica/replica_segments.h"

#include <algorithm>
#include <string>
#include <utility>

#include "quire/layout.h"

namespace quire::kvserver {
namespace {

using cluster::ChainDescription;
using cluster::ChainPut;
using cluster::SegmentCopy;
using cluster::UnitRun;

/// Reads that a unit gets before it counts as damaged for good.
constexpr int kAttempts = 2;

Caller CallerOf(std::string_view tenant) { return {tenant, Priority::kPrefetch}; }

/// Reads units as they are stored, and verifies them. Damaged ones are mended, if possible.
Status ReadStored(PageStore& store, std::string_view tenant, std::span<const UnitAddress> addresses,
                  std::vector<UnitBytes>* units) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    QUIRE_RETURN_IF_ERROR(store.ReadUnits(CallerOf(tenant), addresses, CodecSet::All(), units));
    std::vector<ReportedUnit> damaged;
    for (size_t i = 0; i < addresses.size(); ++i) {
      if (!(*units)[i].Matches()) damaged.push_back({.address = addresses[i]});
    }
    if (damaged.empty()) return OkStatus();
    QUIRE_RETURN_IF_ERROR(store.Recheck(CallerOf(tenant), damaged));
  }
  return DataLoss("segment ", addresses[0].segment.Hex(), " is damaged again and again");
}

class StoreChainPut final : public ChainPut {
 public:
  StoreChainPut(PageStore* store, std::string_view tenant, ChainDescription chain)
      : store_(*store), tenant_(tenant), chain_(std::move(chain)) {}

  bool Has(uint32_t index) override {
    const SegmentKey& key = chain_.keys[index];
    auto hold = store_.HoldSegments(tenant_, {&key, 1});
    const auto stat = store_.StatChain(tenant_, {.spec = chain_.spec, .keys = {key}});
    if (!hold.ok() || !stat.ok() || stat->segments_lost > 0) return false;
    hold_.Add(*std::move(hold));
    return true;
  }

  Status Put(uint32_t index, const SegmentCopy& segment) override {
    PutSegmentArgs args;
    QUIRE_ASSIGN_OR_RETURN(args.codec, CodecByName(segment.codec));
    args.spec = &chain_.spec;
    args.parent = index == 0 ? kRootKey : chain_.keys[index - 1];
    args.tokens = segment.tokens;
    args.payload = segment.units;
    args.unit_crc32c = segment.unit_crc32c;
    args.expected_key = chain_.keys[index];
    args.is_encoded = true;
    args.hold = &hold_;
    QUIRE_RETURN_IF_ERROR(store_.PutSegment(tenant_, args).status());
    if (segment.representatives.empty()) return OkStatus();
    return store_.PutRepresentatives(tenant_, chain_.keys[index], segment.representatives).status();
  }

 private:
  PageStore& store_;
  const std::string tenant_;
  const ChainDescription chain_;
  SegmentHold hold_;
};

}  // namespace

StatusOr<ChainDescription> ReplicaSegments::Describe(std::string_view tenant,
                                                     const SegmentKey& tip) {
  QUIRE_ASSIGN_OR_RETURN(const ChainPtr chain, store_.ResolveChain(tenant, tip));
  return ChainDescription{.spec = chain->spec, .keys = chain->keys};
}

StatusOr<UnitRun> ReplicaSegments::Read(std::string_view tenant, const SegmentKey& key,
                                        uint64_t first_unit, uint64_t max_bytes) {
  QUIRE_ASSIGN_OR_RETURN(const CodecParams codec, store_.StoredCodec(tenant, key));
  QUIRE_ASSIGN_OR_RETURN(const ChainPtr chain, store_.ResolveChain(tenant, key));
  UnitRun run{.codec = Name(codec)};
  QUIRE_ASSIGN_OR_RETURN(run.tokens, store_.Tokens(tenant, key));
  const KvSpec& spec = chain->spec;
  const uint64_t per_layer = uint64_t{PageCount(spec, run.tokens.size())} * spec.num_kv_heads;
  const uint64_t all = per_layer * spec.num_layers;
  if (first_unit >= all) {
    return InvalidArgument("first_unit is ", first_unit, ": the segment has ", all, " units");
  }
  const uint64_t fitting = std::max<uint64_t>(max_bytes / quire::UnitBytes(spec, codec.id), 1);
  std::vector<UnitAddress> addresses;
  for (uint64_t unit = first_unit; unit < std::min(all, first_unit + fitting); ++unit) {
    addresses.push_back(
        {key, static_cast<uint32_t>(unit / per_layer), static_cast<uint32_t>(unit % per_layer)});
  }
  std::vector<kvserver::UnitBytes> units;
  QUIRE_RETURN_IF_ERROR(ReadStored(store_, tenant, addresses, &units));
  run.units.Reserve(units.size());
  for (const kvserver::UnitBytes& unit : units) {
    OutboundBytes sent = unit.ToSend();
    run.unit_crc32c.push_back(sent.crc32c);
    run.units.Append(std::move(sent.slice));
  }
  return run;
}

StatusOr<std::vector<std::byte>> ReplicaSegments::ReadRepresentatives(std::string_view tenant,
                                                                      const SegmentKey& key) {
  return store_.ReadRepresentatives(CallerOf(tenant), key);
}

std::unique_ptr<ChainPut> ReplicaSegments::Begin(std::string_view tenant, ChainDescription chain) {
  return std::make_unique<StoreChainPut>(&store_, tenant, std::move(chain));
}

}  // namespace quire::kvserver
