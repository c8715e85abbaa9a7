// SPDX-License-Identifier: Apache-2.0
//
// ContextInfoView: the wire's description of a context, made from a view.
#ifndef QUIRE_KVSERVER_SERVICE_ADAPTERS_CONTEXT_INFO_H_
#define QUIRE_KVSERVER_SERVICE_ADAPTERS_CONTEXT_INFO_H_

#include <cstdint>
#include <span>

#include "common/wire/convert_context.h"
#include "kvserver/session/context/context_view.h"
#include "quire/key.h"
#include "quire/kv_spec.h"

namespace quire::kvserver {

/// The view outlives the result.
inline wire::ContextInfoView InfoOf(const ContextView& view) {
  return {*view.spec, view.num_tokens, view.num_pages(), *view.keys, view.chain_tip()};
}

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SERVICE_ADAPTERS_CONTEXT_INFO_H_
