// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/page_store.h"

#include "kvserver/store/page_store_impl.h"

namespace quire::kvserver {

StatusOr<std::unique_ptr<PageStore>> PageStore::Open(const Options& options) {
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<PageStoreImpl> store, PageStoreImpl::Open(options, {}));
  return std::unique_ptr<PageStore>(std::move(store));
}

}  // namespace quire::kvserver
