// SPDX-License-Identifier: Apache-2.0
//
// Conversions of document names, contexts, hints and unit ranges. Client and server have structs of
// their own for these. Each function is a template over any struct with the named fields. Checks
// and errors as in convert.h.
#ifndef QUIRE_COMMON_WIRE_CONVERT_CONTEXT_H_
#define QUIRE_COMMON_WIRE_CONVERT_CONTEXT_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "quire/contexts.h"
#include "quire/documents.h"
#include "quire/hints.h"
#include "quire/key.h"
#include "quire/kv_spec.h"
#include "quire/status.h"
#include "quire/units.h"
#include "quire/v1/registry.pb.h"
#include "quire/v1/store.pb.h"
#include "quire/v1/types.pb.h"

namespace quire::wire {

[[nodiscard]] StatusOr<DocumentName> DocumentNameFromProto(const v1::DocumentName& proto);
void DocumentNameToProto(const DocumentName& name, v1::DocumentName* proto);

[[nodiscard]] StatusOr<ContextRef> ContextRefFromProto(const v1::ContextRef& proto);
void ContextRefToProto(const ContextRef& ref, v1::ContextRef* proto);

/// A ContextInfo whose parts lie elsewhere and outlive it.
struct ContextInfoView {
  const KvSpec& spec;
  uint64_t num_tokens;
  uint32_t num_pages;
  std::span<const SegmentKey> segment_keys;
  SegmentKey chain_tip;  ///< kRootKey for an open context.
};
[[nodiscard]] StatusOr<ContextInfo> ContextInfoFromProto(const v1::ContextInfo& proto);
void ContextInfoToProto(const ContextInfoView& context, v1::ContextInfo* proto);
inline void ContextInfoToProto(const ContextInfo& info, v1::ContextInfo* proto) {
  ContextInfoToProto(ContextInfoView{info.spec, info.num_tokens, info.num_pages, info.segment_keys,
                                     info.chain_tip},
                     proto);
}

/// OK for a name that a conversation may have; kMaxConversationBytes at most.
[[nodiscard]] Status CheckConversation(std::string_view conversation);
/// An empty conversation is no error.
[[nodiscard]] StatusOr<Hints> HintsFromProto(const v1::Hints& proto);
[[nodiscard]] Status CheckHints(const Hints& hints);
void HintsToProto(const Hints& hints, v1::Hints* proto);

/// Numbers are checked against `spec` and `num_pages`. Pages and heads may come in any order, and
/// twice.
[[nodiscard]] StatusOr<UnitRange> UnitRangeFromProto(const v1::UnitRange& proto, const KvSpec& spec,
                                                     uint32_t num_pages);
void UnitRangeToProto(const UnitRange& range, v1::UnitRange* proto);

}  // namespace quire::wire

#endif  // QUIRE_COMMON_WIRE_CONVERT_CONTEXT_H_
