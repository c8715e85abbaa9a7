// SPDX-License-Identifier: Apache-2.0
//
// DocumentRegistryImpl: a document's segments are brought to DRAM ahead of a question.

#include "kvserver/registry/document_registry_impl.h"
#include "kvserver/registry/rows/document_keys.h"

namespace quire::kvserver {

StatusOr<DocumentRegistry::WarmResult> DocumentRegistryImpl::Warm(std::string_view tenant,
                                                                  const DocumentName& name,
                                                                  uint32_t first_segment,
                                                                  uint64_t max_bytes) {
  WarmResult result;
  QUIRE_ASSIGN_OR_RETURN(result.document, Get(tenant, name));
  // Held, so that a deletion in between takes nothing away.
  QUIRE_ASSIGN_OR_RETURN(const HeldChain held,
                         store_->HoldChain(tenant, result.document.chain_tip));
  const Chain& chain = *held.chain;
  result.num_segments = static_cast<uint32_t>(chain.keys.size());
  if (first_segment >= result.num_segments) {
    return MakeStatus(StatusCode::kOutOfRange, "document ", Describe(result.document.name), " has ",
                      result.num_segments, " segments, and segment ", first_segment,
                      " is none of them");
  }
  Chain one = chain;
  uint32_t next = first_segment;
  do {
    one.keys = {chain.keys[next++]};
    const Status pinned = store_->PinSegments(tenant, one.keys);
    if (pinned.ok()) (void)store_->UnpinSegments(tenant, one.keys);
    if (IsResourceExhausted(pinned)) {
      ++result.not_fitting;
    } else {
      QUIRE_RETURN_IF_ERROR(pinned);
    }
    QUIRE_ASSIGN_OR_RETURN(const ChainStat stat, store_->StatChain(tenant, one));
    result.bytes += stat.bytes;
  } while (next < result.num_segments && result.bytes < max_bytes);
  result.next_segment = next;
  QUIRE_ASSIGN_OR_RETURN(const ChainStat whole, store_->StatChain(tenant, chain));
  result.in_dram = whole.segments_in_dram;
  return result;
}

}  // namespace quire::kvserver
