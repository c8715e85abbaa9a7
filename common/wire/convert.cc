// SPDX-License-Identifier: Apache-2.0
#include "common/wire/convert.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "common/base/utf8.h"
#include "common/wire/limits.h"

namespace quire::wire {
namespace {

// The wire uses the domain's persistent numbers; 0 (unset) and unknown ones are refused.
static_assert(static_cast<int>(DType::kBF16) == v1::DTYPE_BF16);
static_assert(static_cast<int>(AttentionKind::kMla) == v1::ATTENTION_KIND_MLA);
static_assert(static_cast<int>(RopeState::kPre) == v1::ROPE_STATE_PRE);
static_assert(static_cast<int>(RopeScaling::kLongRope) == v1::ROPE_SCALING_LONGROPE);
static_assert(std::endian::native == std::endian::little, "floats are copied as they are");

/// Converts `value` to an enum with values 1..last.
template <typename Enum>
Status AssignEnum(int value, Enum last, std::string_view field, Enum* out) {
  if (value < 1 || value > static_cast<int>(last)) {
    return InvalidArgument(field, " is ", value, ": must be 1..", static_cast<int>(last));
  }
  *out = static_cast<Enum>(value);
  return OkStatus();
}

Status RopeFromProto(const v1::RopeSpec& proto, RopeSpec* rope) {
  QUIRE_RETURN_IF_ERROR(AssignEnum(proto.state(), RopeState::kPre, "rope.state", &rope->state));
  QUIRE_RETURN_IF_ERROR(
      AssignEnum(proto.scaling(), RopeScaling::kLongRope, "rope.scaling", &rope->scaling));
  rope->interleaved = proto.interleaved();
  rope->rotary_dim = proto.rotary_dim();
  rope->theta = proto.theta();
  rope->factor = proto.factor();
  rope->low_freq_factor = proto.low_freq_factor();
  rope->high_freq_factor = proto.high_freq_factor();
  rope->original_context = proto.original_context();
  rope->beta_fast = proto.beta_fast();
  rope->beta_slow = proto.beta_slow();
  rope->attention_factor = proto.attention_factor();
  rope->pair_factors.assign(proto.pair_factors().begin(), proto.pair_factors().end());
  return OkStatus();
}

void RopeToProto(const RopeSpec& rope, v1::RopeSpec* proto) {
  proto->set_state(static_cast<v1::RopeState>(rope.state));
  proto->set_scaling(static_cast<v1::RopeScaling>(rope.scaling));
  proto->set_interleaved(rope.interleaved);
  proto->set_rotary_dim(rope.rotary_dim);
  proto->set_theta(rope.theta);
  proto->set_factor(rope.factor);
  proto->set_low_freq_factor(rope.low_freq_factor);
  proto->set_high_freq_factor(rope.high_freq_factor);
  proto->set_original_context(rope.original_context);
  proto->set_beta_fast(rope.beta_fast);
  proto->set_beta_slow(rope.beta_slow);
  proto->set_attention_factor(rope.attention_factor);
  proto->mutable_pair_factors()->Add(rope.pair_factors.begin(), rope.pair_factors.end());
}

bool IsTenantChar(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '-';
}

}  // namespace

StatusOr<KvSpec> KvSpecFromProto(const v1::KvSpec& proto) {
  KvSpec spec;
  spec.model = proto.model();
  if (proto.weights_hash().size() != spec.weights_hash.size()) {
    return InvalidArgument("spec.weights_hash has ", proto.weights_hash().size(),
                           " bytes: must be 32");
  }
  std::memcpy(spec.weights_hash.data(), proto.weights_hash().data(), spec.weights_hash.size());
  QUIRE_RETURN_IF_ERROR(
      AssignEnum(proto.attention(), AttentionKind::kMla, "spec.attention", &spec.attention));
  QUIRE_RETURN_IF_ERROR(AssignEnum(proto.dtype(), DType::kBF16, "spec.dtype", &spec.dtype));
  spec.num_layers = proto.num_layers();
  spec.num_query_heads = proto.num_query_heads();
  spec.num_kv_heads = proto.num_kv_heads();
  spec.head_dim = proto.head_dim();
  spec.latent_dim = proto.latent_dim();
  spec.latent_rope_dim = proto.latent_rope_dim();
  spec.page_tokens = proto.page_tokens();
  spec.segment_pages = proto.segment_pages();
  QUIRE_RETURN_IF_ERROR(RopeFromProto(proto.rope(), &spec.rope));
  if (const std::string problem = Problem(spec); !problem.empty()) {
    return InvalidArgument("spec: ", problem);
  }
  return spec;
}

void KvSpecToProto(const KvSpec& spec, v1::KvSpec* proto) {
  proto->set_model(spec.model);
  proto->set_weights_hash(spec.weights_hash.data(), spec.weights_hash.size());
  proto->set_attention(static_cast<v1::AttentionKind>(spec.attention));
  proto->set_dtype(static_cast<v1::DType>(spec.dtype));
  proto->set_num_layers(spec.num_layers);
  proto->set_num_query_heads(spec.num_query_heads);
  proto->set_num_kv_heads(spec.num_kv_heads);
  proto->set_head_dim(spec.head_dim);
  proto->set_latent_dim(spec.latent_dim);
  proto->set_latent_rope_dim(spec.latent_rope_dim);
  proto->set_page_tokens(spec.page_tokens);
  proto->set_segment_pages(spec.segment_pages);
  RopeToProto(spec.rope, proto->mutable_rope());
}

StatusOr<SegmentKey> KeyFromBytes(std::string_view bytes, std::string_view field) {
  const std::optional<SegmentKey> key = SegmentKey::FromBytes(bytes);
  if (!key) return InvalidArgument(field, " has ", bytes.size(), " bytes: a key has 32");
  return *key;
}

StatusOr<SegmentKey> KeyOrRootFromBytes(std::string_view bytes, std::string_view field) {
  if (bytes.empty()) return kRootKey;
  return KeyFromBytes(bytes, field);
}

StatusOr<std::optional<SegmentKey>> OptionalKeyFromBytes(std::string_view bytes,
                                                         std::string_view field) {
  if (bytes.empty()) return std::optional<SegmentKey>();
  QUIRE_ASSIGN_OR_RETURN(const SegmentKey key, KeyFromBytes(bytes, field));
  return std::optional<SegmentKey>(key);
}

StatusOr<std::vector<SegmentKey>> KeysFromProto(
    const google::protobuf::RepeatedPtrField<std::string>& proto, uint64_t max_keys,
    std::string_view field) {
  const auto count = static_cast<uint64_t>(proto.size());
  if (count > max_keys) {
    return InvalidArgument(field, " has ", count, " keys: at most ", max_keys);
  }
  std::vector<SegmentKey> keys;
  keys.reserve(count);
  for (const std::string& bytes : proto) {
    QUIRE_ASSIGN_OR_RETURN(const SegmentKey key, KeyFromBytes(bytes, field));
    keys.push_back(key);
  }
  return keys;
}

void KeysToProto(std::span<const SegmentKey> keys,
                 google::protobuf::RepeatedPtrField<std::string>* proto) {
  proto->Clear();
  proto->Reserve(static_cast<int>(keys.size()));
  for (const SegmentKey& key : keys) *proto->Add() = KeyToBytes(key);
}

Status CheckTenantName(std::string_view tenant) {
  bool good = !tenant.empty() && tenant.size() <= kMaxTenantBytes;
  for (const char c : tenant) good = good && IsTenantChar(c);
  if (good) return OkStatus();
  return InvalidArgument("a tenant name is 1..", kMaxTenantBytes, " bytes of [A-Za-z0-9_.-]; got ",
                         tenant.size(), " bytes");
}

Status CheckName(std::string_view name, std::string_view field) {
  if (name.empty() || name.size() > kMaxNameBytes) {
    return InvalidArgument(field, " has ", name.size(), " bytes: must be 1..", kMaxNameBytes);
  }
  if (name.find_first_not_of(' ') == std::string_view::npos) {
    return InvalidArgument(field, " has spaces only");
  }
  for (std::string_view rest = name; !rest.empty();) {
    const auto c = static_cast<unsigned char>(rest[0]);
    if (c < 0x20 || c == 0x7f || c == '/') {
      return InvalidArgument(field, " has a control character or '/' at byte ",
                             name.size() - rest.size());
    }
    const size_t length = Utf8Length(rest);
    if (length == 0) {
      return InvalidArgument(field, " is not UTF-8 at byte ", name.size() - rest.size());
    }
    rest.remove_prefix(length);
  }
  return OkStatus();
}

Status CheckCollection(std::string_view name) {
  QUIRE_RETURN_IF_ERROR(CheckName(name, "collection"));
  if (name.starts_with('-')) {
    return InvalidArgument("collection '", name, "' begins with '-', as an option does");
  }
  return OkStatus();
}

Status CheckContentHash(std::string_view hash) {
  if (hash.empty() || hash.size() == kContentHashBytes) return OkStatus();
  return InvalidArgument("content_hash has ", hash.size(), " bytes: must be 0 or ",
                         kContentHashBytes);
}

StatusOr<std::optional<uint64_t>> TtlFromProto(uint64_t seconds) {
  if (seconds == 0) return std::optional<uint64_t>();
  if (seconds <= kMaxTtlSeconds) return std::optional<uint64_t>(seconds);
  return InvalidArgument("ttl_seconds is ", seconds, ": must be 1..", kMaxTtlSeconds,
                         ", or 0 for none");
}

StatusOr<std::span<const TokenId>> TokensFromProto(
    const google::protobuf::RepeatedField<int32_t>& proto, uint64_t min, uint64_t max,
    std::string_view field) {
  const std::span<const TokenId> tokens(proto.data(), static_cast<size_t>(proto.size()));
  if (tokens.size() < min || tokens.size() > max) {
    return InvalidArgument(field, " has ", tokens.size(), " token ids: must be ", min, "..", max);
  }
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0) {
      return InvalidArgument(field, "[", i, "] is ", tokens[i], ": token ids are not negative");
    }
  }
  return tokens;
}

StatusOr<std::vector<uint32_t>> AscendingFromProto(
    const google::protobuf::RepeatedField<uint32_t>& proto, uint32_t end, std::string_view field) {
  std::vector<uint32_t> values(proto.begin(), proto.end());
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] >= end)
      return InvalidArgument(field, "[", i, "] is ", values[i], ": must be below ", end);
    if (i > 0 && values[i] <= values[i - 1]) {
      return InvalidArgument(field, "[", i, "] is ", values[i], " after ", values[i - 1],
                             ": must be ascending and distinct");
    }
  }
  return values;
}

StatusOr<std::vector<float>> FloatsFromBytes(std::string_view bytes, uint64_t count,
                                             std::string_view field) {
  if (bytes.size() % sizeof(float) != 0 || bytes.size() / sizeof(float) != count) {
    return InvalidArgument(field, " has ", bytes.size(), " bytes: must be ", count, " float32");
  }
  std::vector<float> values(count);
  if (count > 0) std::memcpy(values.data(), bytes.data(), bytes.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) return InvalidArgument(field, "[", i, "] is not finite");
  }
  return values;
}

std::string FloatsToBytes(std::span<const float> values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size_bytes());
}

}  // namespace quire::wire
