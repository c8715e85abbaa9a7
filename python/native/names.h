// SPDX-License-Identifier: Apache-2.0
//
// Names by which Python knows the values of enumerations. Constants; safe for concurrent use.
#ifndef QUIRE_PYTHON_NATIVE_NAMES_H_
#define QUIRE_PYTHON_NATIVE_NAMES_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "python/native/errors.h"
#include "quire/contexts.h"
#include "quire/digest.h"
#include "quire/document_calls.h"
#include "quire/dtype.h"
#include "quire/hints.h"
#include "quire/kv_spec.h"
#include "quire/layout.h"
#include "quire/priority.h"
#include "quire/recall.h"
#include "quire/unit_codec.h"

namespace quire::python {

template <typename T>
struct Named {
  T value;
  std::string_view name;
};

inline constexpr Named<DType> kDTypesByName[] = {
    {DType::kF32, "f32"}, {DType::kF16, "f16"}, {DType::kBF16, "bf16"}};
inline constexpr Named<AttentionKind> kAttentionKindsByName[] = {{AttentionKind::kMha, "mha"},
                                                                 {AttentionKind::kGqa, "gqa"},
                                                                 {AttentionKind::kMqa, "mqa"},
                                                                 {AttentionKind::kMla, "mla"}};
inline constexpr Named<RopeState> kRopeStatesByName[] = {{RopeState::kPost, "post"},
                                                         {RopeState::kPre, "pre"}};
inline constexpr Named<RopeScaling> kRopeScalingsByName[] = {
    {RopeScaling::kNone, "none"},       {RopeScaling::kLinear, "linear"},
    {RopeScaling::kLlama3, "llama3"},   {RopeScaling::kYarn, "yarn"},
    {RopeScaling::kDynamic, "dynamic"}, {RopeScaling::kLongRope, "longrope"}};
inline constexpr Named<PutDurability> kDurabilitiesByName[] = {
    {PutDurability::kServerDefault, "default"},
    {PutDurability::kMemory, "memory"},
    {PutDurability::kReplicated, "replicated"},
    {PutDurability::kPersisted, "persisted"}};
inline constexpr Named<KeepPriority> kKeepPrioritiesByName[] = {
    {KeepPriority::kLow, "low"}, {KeepPriority::kNormal, "normal"}, {KeepPriority::kHigh, "high"}};
inline constexpr Named<UnitCodec> kUnitCodecsByName[] = {{UnitCodec::kRaw, "raw"},
                                                         {UnitCodec::kFp8E4M3, "fp8"},
                                                         {UnitCodec::kInt8, "int8"},
                                                         {UnitCodec::kInt4, "int4"}};
inline constexpr Named<UnitPart> kUnitPartsByName[] = {{UnitPart::kWhole, "whole"},
                                                       {UnitPart::kValues, "values"}};
inline constexpr Named<Priority> kPrioritiesByName[] = {{Priority::kPrefetch, "prefetch"},
                                                        {Priority::kNormal, "normal"},
                                                        {Priority::kCorrection, "correction"}};
inline constexpr Named<RecallPooling> kPoolingsByName[] = {
    {RecallPooling::kMaxQ, "max_q"},    {RecallPooling::kAvgQ, "avg_q"},
    {RecallPooling::kMaxS, "max_s"},    {RecallPooling::kAvgS, "avg_s"},
    {RecallPooling::kMaxSM, "max_sm"},  {RecallPooling::kAvgSM, "avg_sm"},
    {RecallPooling::kAvgSdM, "avg_sdm"}};
inline constexpr Named<DigestKind> kDigestsByName[] = {
    {DigestKind::kMinMax, "min_max"},
    {DigestKind::kMean, "mean"},
    {DigestKind::kCentreDeviation, "centre_deviation"},
    {DigestKind::kCentreRadius, "centre_radius"},
    {DigestKind::kDisc, "disc"},
    {DigestKind::kRepresentatives, "representatives"},
    {DigestKind::kContent, "content"}};
inline constexpr Named<DocumentState> kDocumentStatesByName[] = {
    {DocumentState::kReady, "ready"},
    {DocumentState::kIngesting, "ingesting"},
    {DocumentState::kFailed, "failed"},
    {DocumentState::kExpired, "expired"}};
inline constexpr Named<DocumentOrder> kDocumentOrdersByName[] = {
    {DocumentOrder::kName, "name"}, {DocumentOrder::kNewest, "newest"}};

/// The value called `name`. INVALID_ARGUMENT names those of `table`, and `what` they are.
template <typename T, size_t N>
[[nodiscard]] T ValueOf(const Named<T> (&table)[N], std::string_view name, std::string_view what) {
  std::string known;
  for (const Named<T>& entry : table) {
    if (entry.name == name) return entry.value;
    known.append(known.empty() ? "" : ", ").append(entry.name);
  }
  throw StatusError(InvalidArgument(what, " '", name, "' is unknown; give one of: ", known));
}

template <typename T, size_t N>
[[nodiscard]] std::string NameOf(const Named<T> (&table)[N], T value) {
  for (const Named<T>& entry : table) {
    if (entry.value == value) return std::string(entry.name);
  }
  return "unknown";
}

}  // namespace quire::python

#endif  // QUIRE_PYTHON_NATIVE_NAMES_H_
