// SPDX-License-Identifier: Apache-2.0
//
// Chain: a sequence of sealed segments, as readers see it.
#ifndef QUIRE_KVSERVER_STORE_CHAIN_H_
#define QUIRE_KVSERVER_STORE_CHAIN_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "quire/key.h"
#include "quire/kv_spec.h"

namespace quire::kvserver {

/// A sealed chain, resolved. Immutable; shared by all readers.
struct Chain {
  KvSpec spec;
  std::vector<SegmentKey> keys;  ///< In order; at least one.
  uint64_t num_tokens = 0;
};
using ChainPtr = std::shared_ptr<const Chain>;

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_CHAIN_H_
