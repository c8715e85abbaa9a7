// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/unit_digests.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "common/base/random.h"
#include "common/page/rope_rotation.h"
#include "kernels/api/page_digest.h"
#include "quire/layout.h"

namespace quire::kvserver {
namespace {

using kernels::DigestKind;

/// 2 KV heads of 8 channels of which 6 are rotated, pages of 4 tokens, f32.
KvSpec Spec() {
  KvSpec spec;
  spec.dtype = DType::kF32;
  spec.num_layers = 1;
  spec.num_query_heads = 2;
  spec.num_kv_heads = 2;
  spec.head_dim = 8;
  spec.page_tokens = 4;
  spec.rope.rotary_dim = 6;
  spec.rope.theta = 100;
  return spec;
}

/// Rotates a key to `position`, in double precision.
void Rotate(const KvSpec& spec, uint64_t position, float* key) {
  const std::vector<double> frequencies = RopeRotation(spec.rope).inverse_frequencies();
  const size_t first = spec.attention == AttentionKind::kMla ? spec.latent_dim : 0;
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const size_t a = first + (spec.rope.interleaved ? 2 * i : i);
    const size_t b = spec.rope.interleaved ? a + 1 : a + frequencies.size();
    const double angle = frequencies[i] * static_cast<double>(position);
    const double x = key[a], y = key[b];
    key[a] = static_cast<float>(x * std::cos(angle) - y * std::sin(angle));
    key[b] = static_cast<float>(y * std::cos(angle) + x * std::sin(angle));
  }
}

/// Units of `tokens` random keys from `first_token` on, and their means without rotation.
struct Pages {
  Pages(const KvSpec& spec, uint64_t first_token, uint32_t tokens) {
    SeededRandom random(5);
    const size_t d = spec.key_dim(), p = spec.page_tokens;
    for (uint32_t page = 0; page * p < tokens; ++page) {
      for (uint32_t head = 0; head < spec.num_kv_heads; ++head) {
        const size_t unit = units.size();
        units.resize(unit + spec.rows_per_unit() * d);
        const size_t rows = std::min<size_t>(p, tokens - page * p);
        valid_rows.push_back(static_cast<int32_t>(rows));
        std::vector<double> sum(d);
        for (size_t row = 0; row < rows; ++row) {
          float* const key = units.data() + unit + row * d;
          for (size_t c = 0; c < d; ++c) sum[c] += key[c] = random.Normal();
          if (spec.rope.state == RopeState::kPost) {
            Rotate(spec, first_token + page * p + row, key);
          }
        }
        for (const double channel : sum) means.push_back(channel / static_cast<double>(rows));
      }
    }
  }
  std::vector<float> units;
  std::vector<int32_t> valid_rows;
  std::vector<double> means;  ///< [pages][n_kv][d]
};

void ExpectMeansOfUnrotatedKeys(const KvSpec& spec, uint64_t first_token) {
  const Pages pages(spec, first_token, 2 * spec.page_tokens + 3);
  std::vector<float> digests(pages.means.size());
  const UnitsToDigest from{.units = reinterpret_cast<const std::byte*>(pages.units.data()),
                           .valid_rows = pages.valid_rows,
                           .first_token = first_token};
  ASSERT_EQ(ComputeDigests(spec, DigestKind::kContent, from,
                           reinterpret_cast<std::byte*>(digests.data())),
            OkStatus());
  for (size_t i = 0; i < digests.size(); ++i) {
    ASSERT_NEAR(digests[i], pages.means[i], 2e-5) << "element " << i;
  }
}

TEST(UnitDigestsTest, ContentIsTheMeanOfKeysTurnedBackFromTheirPositions) {
  KvSpec spec = Spec();
  ExpectMeansOfUnrotatedKeys(spec, 0);
  ExpectMeansOfUnrotatedKeys(spec, 96);
  spec.rope.interleaved = true;
  ExpectMeansOfUnrotatedKeys(spec, 96);
  spec.rope.scaling = RopeScaling::kLinear;
  spec.rope.factor = 4;
  ExpectMeansOfUnrotatedKeys(spec, 96);
}

TEST(UnitDigestsTest, ContentOfKeysWithoutRotationIsTheirMean) {
  KvSpec spec = Spec();
  spec.rope.state = RopeState::kPre;
  ExpectMeansOfUnrotatedKeys(spec, 96);
  spec = Spec();
  spec.rope.rotary_dim = 0;
  ExpectMeansOfUnrotatedKeys(spec, 96);
}

TEST(UnitDigestsTest, ContentOfLatentRowsTurnsTheChannelsBehindThem) {
  KvSpec spec = Spec();
  spec.attention = AttentionKind::kMla;
  spec.num_kv_heads = 1;
  spec.head_dim = 0;
  spec.latent_dim = 6;
  spec.latent_rope_dim = spec.rope.rotary_dim = 4;
  ExpectMeansOfUnrotatedKeys(spec, 96);
}

TEST(UnitDigestsTest, AModelWhoseRotationDependsOnTheLengthHasNoContent) {
  KvSpec spec = Spec();
  EXPECT_TRUE(kernels::HasDigest(spec, DigestKind::kContent));
  spec.rope.scaling = RopeScaling::kDynamic;
  EXPECT_FALSE(kernels::HasDigest(spec, DigestKind::kContent));
}

}  // namespace
}  // namespace quire::kvserver
