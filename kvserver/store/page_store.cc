// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/page_store.h"

#include <utility>

#include "kvserver/store/page_store_impl.h"

namespace quire::kvserver {

StatusOr<std::unique_ptr<PageStore>> PageStore::Open(const Options& options) {
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<PageStoreImpl> store, PageStoreImpl::Open(options, {}));
  return std::unique_ptr<PageStore>(std::move(store));
}

StatusOr<HeldChain> PageStore::HoldChain(std::string_view tenant, const SegmentKey& tip) {
  QUIRE_ASSIGN_OR_RETURN(ChainPtr chain, ResolveChain(tenant, tip));
  QUIRE_ASSIGN_OR_RETURN(SegmentHold hold, HoldSegments(tenant, chain->keys));
  std::vector<uint64_t> written_as = WrittenAs(chain->keys);
  return HeldChain{std::move(chain), std::move(hold), std::move(written_as)};
}

}  // namespace quire::kvserver
