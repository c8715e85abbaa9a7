// SPDX-License-Identifier: Apache-2.0
#include "common/page/kv_spec.h"

#include <openssl/sha.h>

#include <cmath>
#include <sstream>
#include <utility>
#include <vector>

namespace quire {
namespace {

/// Calls visit(name, value) for every field in a fixed order. Fingerprint and comparison share this
/// list. A new field changes every fingerprint.
template <typename Visitor>
void VisitFields(const KvSpec& s, Visitor&& visit) {
  visit("attention", static_cast<double>(s.attention));
  visit("dtype", static_cast<double>(s.dtype));
  visit("num_layers", static_cast<double>(s.num_layers));
  visit("num_query_heads", static_cast<double>(s.num_query_heads));
  visit("num_kv_heads", static_cast<double>(s.num_kv_heads));
  visit("head_dim", static_cast<double>(s.head_dim));
  visit("latent_dim", static_cast<double>(s.latent_dim));
  visit("latent_rope_dim", static_cast<double>(s.latent_rope_dim));
  visit("page_tokens", static_cast<double>(s.page_tokens));
  visit("segment_pages", static_cast<double>(s.segment_pages));
  visit("rope.state", static_cast<double>(s.rope.state));
  visit("rope.scaling", static_cast<double>(s.rope.scaling));
  visit("rope.interleaved", s.rope.interleaved ? 1.0 : 0.0);
  visit("rope.rotary_dim", static_cast<double>(s.rope.rotary_dim));
  visit("rope.theta", s.rope.theta);
  visit("rope.factor", s.rope.factor);
  visit("rope.low_freq_factor", s.rope.low_freq_factor);
  visit("rope.high_freq_factor", s.rope.high_freq_factor);
  visit("rope.original_context", s.rope.original_context);
  visit("rope.beta_fast", s.rope.beta_fast);
  visit("rope.beta_slow", s.rope.beta_slow);
  visit("rope.attention_factor", s.rope.attention_factor);
  // Only longrope has factors; other specs keep their older fingerprints.
  for (const double factor : s.rope.pair_factors) visit("rope.pair_factors", factor);
}

std::string OutOfRange(const char* field, uint32_t value, uint32_t low, uint32_t high) {
  if (value >= low && value <= high) return "";
  std::ostringstream out;
  out << field << " is " << value << ", must be " << low << ".." << high;
  return out.str();
}

std::string PairFactorsProblem(const RopeSpec& r) {
  const size_t wanted = r.scaling == RopeScaling::kLongRope ? r.rotary_dim / 2 : 0;
  if (r.pair_factors.size() != wanted) {
    return "rope.pair_factors has " + std::to_string(r.pair_factors.size()) +
           " factors, must have rope.rotary_dim / 2 for longrope and otherwise none: " +
           std::to_string(wanted);
  }
  for (const double factor : r.pair_factors) {
    if (!std::isfinite(factor) || factor <= 0) return "one of rope.pair_factors is not positive";
  }
  return "";
}

std::string RopeProblem(const KvSpec& s) {
  const RopeSpec& r = s.rope;
  if (r.state != RopeState::kPost && r.state != RopeState::kPre) return "rope.state is unknown";
  if (r.scaling < RopeScaling::kNone || r.scaling > RopeScaling::kLongRope)
    return "rope.scaling is unknown";
  if (r.rotary_dim % 2 != 0 || r.rotary_dim > s.key_dim()) {
    return "rope.rotary_dim is " + std::to_string(r.rotary_dim) +
           ", must be even and at most the key dimension " + std::to_string(s.key_dim());
  }
  for (double v : {r.theta, r.factor, r.low_freq_factor, r.high_freq_factor, r.original_context,
                   r.beta_fast, r.beta_slow, r.attention_factor}) {
    if (!std::isfinite(v) || v < 0) return "a rope parameter is negative or not finite";
  }
  if (r.theta <= 0 || r.factor <= 0) return "rope.theta and rope.factor must be positive";
  if (r.state == RopeState::kPost && r.scaling == RopeScaling::kDynamic) {
    return "rope.scaling is dynamic: keys must be stored before RoPE (rope.state = pre)";
  }
  return PairFactorsProblem(r);
}

std::string HeadProblem(const KvSpec& s) {
  const bool mla = s.attention == AttentionKind::kMla;
  if (s.attention == AttentionKind::kMqa || mla) {
    if (s.num_kv_heads != 1) return "num_kv_heads must be 1 for MQA and MLA";
  }
  if (mla) {
    if (s.head_dim != 0)
      return "head_dim must be 0 for MLA (latent_dim and latent_rope_dim say the size)";
    if (auto p = OutOfRange("latent_dim", s.latent_dim, 1, KvSpecLimits::kMaxHeadDim); !p.empty())
      return p;
    return OutOfRange("latent_rope_dim", s.latent_rope_dim, 0, KvSpecLimits::kMaxHeadDim);
  }
  if (s.latent_dim != 0 || s.latent_rope_dim != 0)
    return "latent_dim and latent_rope_dim are for MLA only";
  if (s.num_query_heads % s.num_kv_heads != 0)
    return "num_query_heads must be a multiple of num_kv_heads";
  if (s.attention == AttentionKind::kMha && s.num_query_heads != s.num_kv_heads) {
    return "num_query_heads must equal num_kv_heads for MHA";
  }
  return OutOfRange("head_dim", s.head_dim, 1, KvSpecLimits::kMaxHeadDim);
}

}  // namespace

std::string Problem(const KvSpec& s) {
  if (s.model.empty() || s.model.size() > KvSpecLimits::kMaxModelNameBytes) {
    return "model must be a name of 1..256 bytes";
  }
  if (s.attention < AttentionKind::kMha || s.attention > AttentionKind::kMla)
    return "attention is unknown";
  if (!IsKnown(s.dtype)) return "dtype is unknown";
  for (const std::string& problem :
       {OutOfRange("num_layers", s.num_layers, 1, KvSpecLimits::kMaxLayers),
        OutOfRange("num_query_heads", s.num_query_heads, 1, KvSpecLimits::kMaxHeads),
        OutOfRange("num_kv_heads", s.num_kv_heads, 1, KvSpecLimits::kMaxHeads),
        OutOfRange("page_tokens", s.page_tokens, 1, KvSpecLimits::kMaxPageTokens),
        OutOfRange("segment_pages", s.segment_pages, 1, KvSpecLimits::kMaxSegmentPages)}) {
    if (!problem.empty()) return problem;
  }
  if (auto p = HeadProblem(s); !p.empty()) return p;
  return RopeProblem(s);
}

SpecFingerprint Fingerprint(const KvSpec& spec) {
  std::string encoded = "quire.kvspec.v1";
  encoded.push_back('\0');
  encoded += std::to_string(spec.model.size()) + ":" + spec.model;
  encoded.append(reinterpret_cast<const char*>(spec.weights_hash.data()), spec.weights_hash.size());
  VisitFields(spec, [&](const char*, double value) {
    encoded.append(reinterpret_cast<const char*>(&value), sizeof value);  // IEEE 754, little endian
  });
  SpecFingerprint out;
  SHA256(reinterpret_cast<const unsigned char*>(encoded.data()), encoded.size(), out.data());
  return out;
}

std::string FirstDifference(const KvSpec& a, const KvSpec& b) {
  if (a.model != b.model) return "model: '" + a.model + "' vs '" + b.model + "'";
  if (a.weights_hash != b.weights_hash) return "weights_hash";
  if (a.dtype != b.dtype) return std::string("dtype: ") + Name(a.dtype) + " vs " + Name(b.dtype);
  std::vector<std::pair<const char*, double>> left;
  VisitFields(a, [&](const char* name, double value) { left.emplace_back(name, value); });
  std::ostringstream out;
  size_t i = 0;
  VisitFields(b, [&](const char* name, double value) {
    if (i >= left.size() || out.tellp() != 0) return;
    const double other = left[i++].second;
    if (other != value) out << name << ": " << other << " vs " << value;
  });
  if (out.tellp() == 0 && a.rope.pair_factors.size() != b.rope.pair_factors.size()) {
    return "rope.pair_factors";
  }
  return out.str();
}

}  // namespace quire
