// SPDX-License-Identifier: Apache-2.0
//
// DocumentPages: the whole pages of a stored document, by the bytes that they have. Copies of the
// pages that outlive their context go by this name. The same tokens may be stored with other bytes
// later. A plain value.
#ifndef QUIRE_GPUWORKER_CACHE_DOCUMENT_PAGES_H_
#define QUIRE_GPUWORKER_CACHE_DOCUMENT_PAGES_H_

#include <compare>
#include <cstdint>

#include "quire/key.h"

namespace quire::worker {

struct DocumentPages {
  SegmentKey tip = {};
  uint32_t num_pages = 0;
  uint64_t incarnation = 0;  ///< OpenedContext::incarnation of a context that continues it.
  friend auto operator<=>(const DocumentPages&, const DocumentPages&) = default;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_CACHE_DOCUMENT_PAGES_H_
