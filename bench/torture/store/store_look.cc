// SPDX-License-Identifier: Apache-2.0
#include "bench/torture/store/store_look.h"

#include <algorithm>
#include <set>
#include <span>

#include "kvserver/store/metadata/tenant_directory.h"
#include "quire/layout.h"

namespace quire::torture {
namespace {

using kvserver::PageStore;
using kvserver::PageStoreImpl;
using kvserver::UnitAddress;
using kvserver::UnitBytes;

std::vector<UnitAddress> UnitsOf(const KvSpec& spec, size_t tokens, const SegmentKey& key) {
  std::vector<UnitAddress> units;
  const uint32_t per_layer = PageCount(spec, tokens) * spec.num_kv_heads;
  for (uint32_t layer = 0; layer < spec.num_layers; ++layer) {
    for (uint32_t unit = 0; unit < per_layer; ++unit) units.push_back({key, layer, unit});
  }
  return units;
}

bool IsPayload(std::span<const UnitBytes> units, std::span<const std::byte> payload) {
  for (const UnitBytes& unit : units) {
    const auto bytes = unit.ToSend().slice.bytes;
    if (bytes.size() > payload.size() || !std::ranges::equal(bytes, payload.first(bytes.size()))) {
      return false;
    }
    payload = payload.subspan(bytes.size());
  }
  return payload.empty();
}

}  // namespace

PageStore::Options SmallStore(const std::string& directory) {
  return {.ssd_path = directory,
          .dram_bytes = 1 << 20,
          .ssd_bytes = 16 << 20,
          .ssd_volume_bytes = 1 << 20,
          .catalog_cache_bytes = 256 << 10,
          .digest_cache_bytes = 256 << 10};
}

StatusOr<TenantSalt> SaltOf(PageStoreImpl& store) {
  QUIRE_ASSIGN_OR_RETURN(const kvserver::TenantDirectory tenants,
                         kvserver::TenantDirectory::Open(&store.database(), {kTenant}));
  QUIRE_ASSIGN_OR_RETURN(const TenantSalt* const salt, tenants.Salt(kTenant));
  return *salt;
}

std::vector<std::vector<SegmentKey>> AllKeys(const Corpus& corpus, const TenantSalt& salt) {
  std::vector<std::vector<SegmentKey>> keys;
  for (uint32_t chain = 0; chain < corpus.chains(); ++chain) {
    keys.push_back(corpus.Keys(chain, salt));
  }
  return keys;
}

Status ReadAndCompare(PageStore& store, const Corpus& corpus, SegmentId id, const SegmentKey& key) {
  const KvSpec& spec = corpus.Spec(id.chain);
  std::vector<UnitBytes> units;
  QUIRE_RETURN_IF_ERROR(
      store.ReadUnits(kTenant, UnitsOf(spec, corpus.Tokens(id).size(), key), &units));
  if (IsPayload(units, corpus.Payload(id))) return OkStatus();
  return Internal("segment ", key.Hex(), " was handed out with other bytes than were put");
}

Found LookAt(PageStore& store, const Corpus& corpus, SegmentId id, const SegmentKey& key,
             Status* answer) {
  Status ignored;
  Status& said = answer != nullptr ? *answer : ignored;
  const StatusOr<std::vector<TokenId>> tokens = store.Tokens(kTenant, key);
  said = tokens.status();
  if (said.code() == StatusCode::kNotFound) return Found::kMissing;
  if (!said.ok()) return Found::kUnreadable;
  if (*tokens != corpus.Tokens(id)) {
    said = Internal("segment ", key.Hex(), " has other tokens than were put");
    return Found::kWrong;
  }
  said = ReadAndCompare(store, corpus, id, key);
  if (said.code() == StatusCode::kInternal) return Found::kWrong;
  for (uint32_t layer = 0; said.ok() && layer < corpus.Spec(id.chain).num_layers; ++layer) {
    said = store.ReadDigests(kTenant, key, layer).status();
  }
  if (said.ok()) return Found::kWhole;
  // Another thread may evict it during the check.
  const bool gone = store.Tokens(kTenant, key).status().code() == StatusCode::kNotFound;
  return gone ? Found::kMissing : Found::kUnreadable;
}

StatusOr<uint64_t> CountStrangers(PageStoreImpl& store,
                                  const std::vector<std::vector<SegmentKey>>& keys) {
  std::set<SegmentKey> known;
  for (const std::vector<SegmentKey>& chain : keys) known.insert(chain.begin(), chain.end());
  uint64_t strangers = 0;
  const auto visit = [&](std::string_view key, std::string_view) {
    const auto parsed = SegmentKey::FromBytes(key);
    if (!parsed || !known.contains(*parsed)) ++strangers;
    return true;
  };
  QUIRE_RETURN_IF_ERROR(store.database().Scan(kvserver::Table::kSegments, "", visit));
  return strangers;
}

Status CompareAll(PageStoreImpl& store, const Corpus& corpus, History* history) {
  QUIRE_ASSIGN_OR_RETURN(const TenantSalt salt, SaltOf(store));
  const std::vector<std::vector<SegmentKey>> keys = AllKeys(corpus, salt);
  for (uint32_t chain = 0; chain < corpus.chains(); ++chain) {
    for (uint32_t index = 0; index < corpus.segments(); ++index) {
      Status answer;
      const Found found = LookAt(store, corpus, {chain, index}, keys[chain][index], &answer);
      history->Compare({chain, index}, found, answer.ToString());
    }
  }
  QUIRE_ASSIGN_OR_RETURN(const uint64_t strangers, CountStrangers(store, keys));
  history->CountStrangers(strangers);
  return OkStatus();
}

}  // namespace quire::torture
