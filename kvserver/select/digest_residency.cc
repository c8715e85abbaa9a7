// SPDX-License-Identifier: Apache-2.0
#include "kvserver/select/digest_residency.h"

#include <utility>

namespace quire::kvserver {

ResidentDigests::ResidentDigests(std::shared_ptr<DigestTable> table, std::string_view tenant,
                                 const KvSpec& spec)
    : table_(std::move(table)), tenant_(tenant), spec_(spec) {}

ResidentDigests::~ResidentDigests() {
  for (const auto& [layer, slices] : layers_) {
    for (size_t s = 0; s < slices.size(); ++s) table_->Release(tenant_, {keys_[s], layer});
  }
}

DigestBlocks ResidentDigests::Blocks(uint32_t layer, uint32_t first_page, uint32_t end_page) const {
  const uint32_t first_segment = first_page / spec_.segment_pages;
  DigestBlocks blocks(spec_, first_segment * spec_.segment_pages);
  const std::vector<Slice>& slices = layers_.at(layer);
  for (size_t s = first_segment; s < slices.size() && blocks.end_page() < end_page; ++s) {
    blocks.Append(slices[s]);
  }
  return blocks;
}

DigestResidency::DigestResidency(PageStore* store, uint64_t max_bytes)
    : store_(store), table_(std::make_shared<DigestTable>(max_bytes)) {}
DigestResidency::~DigestResidency() = default;

StatusOr<std::shared_ptr<const ResidentDigests>> DigestResidency::Hold(
    const Caller& caller, const KvSpec& spec, std::span<const SegmentKey> keys,
    std::span<const uint32_t> layers) {
  const uint64_t page_bytes = PageDigestBytes(spec);
  const uint64_t full_segments = keys.empty() ? 0 : keys.size() - 1;
  if (!table_->CouldHold(layers.size() * full_segments * spec.segment_pages * page_bytes)) {
    refused_.Add();
    return std::shared_ptr<const ResidentDigests>();
  }
  // The handle releases what it has got so far, however this ends.
  std::shared_ptr<ResidentDigests> held(new ResidentDigests(table_, caller.tenant, spec));
  held->keys_.assign(keys.begin(), keys.end());
  for (const uint32_t layer : layers) {
    std::vector<Slice>& slices = held->layers_[layer];
    slices.reserve(keys.size());
    uint64_t bytes = 0;
    for (size_t s = 0; s < keys.size(); ++s) {
      const bool last = s + 1 == keys.size();
      QUIRE_ASSIGN_OR_RETURN(ResidentBytes digests,
                             HoldExtent(caller, spec, {keys[s], layer}, last));
      if (digests == nullptr) {
        refused_.Add();
        return std::shared_ptr<const ResidentDigests>();
      }
      bytes += digests->size();
      slices.push_back(Slice{std::span(*digests), std::move(digests)});
    }
    held->num_pages_ = static_cast<uint32_t>(bytes / page_bytes);
  }
  holds_.Add();
  return std::shared_ptr<const ResidentDigests>(std::move(held));
}

StatusOr<ResidentBytes> DigestResidency::HoldExtent(const Caller& caller, const KvSpec& spec,
                                                    const ExtentId& id, bool last) {
  if (ResidentBytes resident = table_->Share(caller.tenant, id)) {
    shared_.Add();
    return resident;
  }
  const uint64_t page_bytes = PageDigestBytes(spec);
  const uint64_t promised = spec.segment_pages * page_bytes;
  if (!table_->Promise(promised)) return ResidentBytes();
  StatusOr<SegmentDigests> digests = store_->ReadDigests(caller, id.segment, id.layer);
  if (!digests.ok()) {
    table_->Withdraw(promised);
    return digests.status();
  }
  const uint64_t bytes = digests->bytes->size();
  const bool whole = digests->num_pages == spec.segment_pages || last;
  if (!whole || bytes != digests->num_pages * page_bytes || bytes > promised) {
    table_->Withdraw(promised);
    return Internal("digests of segment ", id.segment.Hex(), " have ", bytes, " bytes for ",
                    digests->num_pages, " pages");
  }
  table_->Withdraw(promised - bytes);  // of a short last segment
  loaded_.Add();
  return table_->Add(caller.tenant, id, std::move(digests->bytes));
}

void DigestResidency::VisitMetrics(MetricsVisitor& visit) const {
  visit.Gauge("digest_bytes_resident", "Digests held for open sessions.", table_->used_bytes());
  visit.Counter("digest_holds", "Times that digests of a context were held for a session.",
                holds_.Get());
  visit.Counter("digest_holds_refused",
                "Contexts whose digests did not fit; they are read through the digest cache.",
                refused_.Get());
  visit.Counter("digest_extents_loaded", "Digests of one segment and layer read to be held.",
                loaded_.Get());
  visit.Counter("digest_extents_shared",
                "Digests of one segment and layer that another session held already.",
                shared_.Get());
}

}  // namespace quire::kvserver
