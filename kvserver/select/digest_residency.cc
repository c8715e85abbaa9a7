// SPDX-License-Identifier: Apache-2.0
#include "kvserver/select/digest_residency.h"

#include <utility>

#include "kvserver/select/held_digest_scrub.h"

namespace quire::kvserver {

ResidentDigests::ResidentDigests(std::shared_ptr<DigestTable> table, std::string_view tenant,
                                 const KvSpec& spec, DigestKind kind, std::vector<ResidentId> ids)
    : table_(std::move(table)), tenant_(tenant), spec_(spec), kind_(kind), ids_(std::move(ids)) {}

ResidentDigests::~ResidentDigests() { table_->Release(tenant_, ids_); }

std::optional<DigestBlocks> ResidentDigests::Blocks(uint32_t layer, uint32_t first_page,
                                                    uint32_t end_page) const {
  const uint32_t first_segment = first_page / spec_.segment_pages;
  DigestBlocks blocks(spec_, first_segment * spec_.segment_pages, kind_);
  size_t row = 0;  // Index of the layer.
  while (row < ids_.size() && ids_[row].id.extent.layer != layer) row += num_segments_;
  for (size_t s = first_segment; s < num_segments_ && blocks.end_page() < end_page; ++s) {
    const ResidentBytes& block = blocks_[row + s];
    if (block->damaged()) return std::nullopt;
    blocks.Append(Slice{block->bytes(), block});
  }
  return blocks;
}

DigestResidency::DigestResidency(PageStore* store, const DigestTable::Limits& limits)
    : store_(store), table_(std::make_shared<DigestTable>(limits)) {}
DigestResidency::~DigestResidency() = default;

StatusOr<std::shared_ptr<const ResidentDigests>> DigestResidency::Hold(const Caller& caller,
                                                                       const KvSpec& spec,
                                                                       const HoldArgs& args) {
  const uint64_t page_bytes = PageDigestBytes(spec, args.kind);
  const std::vector<uint64_t> written_as = store_->WrittenAs(args.keys);
  std::vector<ResidentId> ids;
  ids.reserve(args.layers.size() * args.keys.size());
  for (const uint32_t layer : args.layers) {
    for (size_t i = 0; i < args.keys.size(); ++i) {
      ids.push_back({{{args.keys[i], layer}, args.kind}, written_as[i]});
    }
  }
  if (!table_->Hold(caller.tenant, ids, spec.segment_pages * page_bytes)) {
    refused_.Add();
    return std::shared_ptr<const ResidentDigests>();
  }
  // The handle releases everything on every path.
  std::shared_ptr<ResidentDigests> held(
      new ResidentDigests(table_, caller.tenant, spec, args.kind, std::move(ids)));
  held->num_segments_ = static_cast<uint32_t>(args.keys.size());
  held->blocks_.reserve(held->ids_.size());
  uint64_t bytes = 0;
  for (const ResidentId& id : held->ids_) {
    const bool last = id.id.extent.segment == args.keys.back();
    QUIRE_ASSIGN_OR_RETURN(ResidentBytes digests, Bytes(caller, spec, id, last));
    bytes += digests->bytes().size();
    held->blocks_.push_back(std::move(digests));
  }
  if (bytes > 0) held->num_pages_ = static_cast<uint32_t>(bytes / args.layers.size() / page_bytes);
  holds_.Add();
  return std::shared_ptr<const ResidentDigests>(std::move(held));
}

StatusOr<ResidentBytes> DigestResidency::Bytes(const Caller& caller, const KvSpec& spec,
                                               const ResidentId& id, bool last) {
  if (ResidentBytes resident = table_->Take(caller.tenant, id)) {
    shared_.Add();
    return resident;
  }
  StatusOr<ResidentBytes> read = Read(caller, spec, id, last);
  if (!read.ok()) {
    table_->Failed(caller.tenant, id);
    return read.status();
  }
  loaded_.Add();
  table_->Loaded(caller.tenant, id, *read);
  return read;
}

StatusOr<ResidentBytes> DigestResidency::Read(const Caller& caller, const KvSpec& spec,
                                              const ResidentId& resident, bool last) {
  const DigestId& id = resident.id;
  QUIRE_ASSIGN_OR_RETURN(SegmentDigests digests,
                         store_->ReadDigests(caller, id.extent.segment, id.extent.layer, id.kind));
  const bool whole =
      digests.num_pages == spec.segment_pages || (last && digests.num_pages < spec.segment_pages);
  if (whole && digests.bytes->size() == digests.num_pages * PageDigestBytes(spec, id.kind)) {
    return std::make_shared<ResidentBlock>(caller.tenant, resident, std::move(digests.bytes),
                                           digests.crc32c);
  }
  return Internal("digests of segment ", id.extent.segment.Hex(), " have ", digests.bytes->size(),
                  " bytes for ", digests.num_pages, " pages");
}

std::unique_ptr<ScrubWork> DigestResidency::Scrub() const {
  return std::make_unique<HeldDigestScrub>(table_);
}

void DigestResidency::VisitMetrics(MetricsVisitor& visit) const {
  visit.Gauge("digest_bytes_resident", "Digests held for open sessions.", table_->used_bytes());
  visit.Counter("digest_holds", "Times that digests of a context were held for a session.",
                holds_.Get());
  visit.Counter("digest_holds_refused",
                "Times that digests of a context did not fit; they are read through the digest "
                "cache until there is room.",
                refused_.Get());
  visit.Counter("digest_extents_loaded", "Digests of one segment and layer read to be held.",
                loaded_.Get());
  visit.Counter("digest_extents_shared",
                "Digests of one segment and layer that another session held already.",
                shared_.Get());
}

}  // namespace quire::kvserver
