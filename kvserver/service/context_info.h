// SPDX-License-Identifier: Apache-2.0
//
// ContextInfo: the wire's description of a context, made from a view.
#ifndef QUIRE_KVSERVER_SERVICE_CONTEXT_INFO_H_
#define QUIRE_KVSERVER_SERVICE_CONTEXT_INFO_H_

#include <cstdint>
#include <span>

#include "common/page/key.h"
#include "common/page/kv_spec.h"
#include "common/wire/convert_context.h"
#include "kvserver/session/context_view.h"

namespace quire::kvserver {

struct ContextInfo {
  const KvSpec& spec;
  uint64_t num_tokens;
  uint32_t num_pages;
  std::span<const SegmentKey> segment_keys;
  SegmentKey chain_tip;
};

/// The view outlives the result.
inline ContextInfo InfoOf(const ContextView& view) {
  return {*view.spec, view.num_tokens, view.num_pages(), *view.keys, view.chain_tip()};
}

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SERVICE_CONTEXT_INFO_H_
