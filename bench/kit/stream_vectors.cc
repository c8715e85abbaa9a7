// SPDX-License-Identifier: Apache-2.0
//
// VectorReader and VectorProducts with Highway. foreach_target.h compiles this file once per
// instruction set; the functions at the end choose at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/kit/stream_vectors.cc"
#include <hwy/foreach_target.h>  // Must come before highway.h.

// clang-format off
#include <hwy/highway.h>
#include <cstddef>
#include <cstdint>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace quire::bench {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// One page ahead, as the processor's own prefetch does not cross pages.
constexpr size_t kAheadWords = 4096 / sizeof(uint64_t);
constexpr size_t kLineWords = 64 / sizeof(uint64_t);

HWY_NOINLINE uint64_t SumVectorsImpl(const uint64_t* words, size_t n, const uint64_t* next,
                                     size_t n_next) {
  using Tag = hn::ScalableTag<uint64_t>;
  const Tag tag;
  const size_t lanes = hn::Lanes(tag);
  const size_t step = 4 * lanes;
  auto a = hn::Zero(tag), b = a, c = a, d = a;
  size_t i = 0;
  for (; i + step <= n; i += step) {
    for (size_t ahead = i + kAheadWords; ahead < i + kAheadWords + step; ahead += kLineWords) {
      if (ahead < n) {
        __builtin_prefetch(words + ahead);
      } else if (ahead - n < n_next) {
        __builtin_prefetch(next + (ahead - n));
      }
    }
    a = hn::Add(a, hn::LoadU(tag, words + i));
    b = hn::Add(b, hn::LoadU(tag, words + i + lanes));
    c = hn::Add(c, hn::LoadU(tag, words + i + 2 * lanes));
    d = hn::Add(d, hn::LoadU(tag, words + i + 3 * lanes));
  }
  HWY_ALIGN uint64_t sums[hn::MaxLanes(Tag())];
  hn::Store(hn::Add(hn::Add(a, b), hn::Add(c, d)), tag, sums);
  uint64_t sum = 0;
  for (size_t lane = 0; lane < lanes; ++lane) sum += sums[lane];
  for (; i < n; ++i) sum += words[i];
  return sum;
}

HWY_NOINLINE float SumProductsImpl(uint64_t products) {
  using Tag = hn::ScalableTag<float>;
  const Tag tag;
  const uint64_t step = 8 * hn::Lanes(tag);
  const auto x = hn::Set(tag, 0.5f), y = hn::Set(tag, 0.25f);
  // Eight independent sums, so that none waits for the one before.
  auto a = hn::Zero(tag), b = a, c = a, d = a, e = a, f = a, g = a, h = a;
  for (uint64_t i = 0; i < products; i += step) {
    a = hn::MulAdd(x, y, a);
    b = hn::MulAdd(x, y, b);
    c = hn::MulAdd(x, y, c);
    d = hn::MulAdd(x, y, d);
    e = hn::MulAdd(x, y, e);
    f = hn::MulAdd(x, y, f);
    g = hn::MulAdd(x, y, g);
    h = hn::MulAdd(x, y, h);
  }
  const auto ad = hn::Add(hn::Add(a, b), hn::Add(c, d));
  const auto eh = hn::Add(hn::Add(e, f), hn::Add(g, h));
  return hn::GetLane(hn::SumOfLanes(tag, hn::Add(ad, eh)));
}

}  // namespace HWY_NAMESPACE
}  // namespace quire::bench
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "bench/kit/stream_readers.h"

namespace quire::bench {

HWY_EXPORT(SumVectorsImpl);
HWY_EXPORT(SumProductsImpl);

StreamReader VectorReader() {
  return [](std::span<const uint64_t> words, std::span<const uint64_t> next) {
    return HWY_DYNAMIC_DISPATCH(SumVectorsImpl)(words.data(), words.size(), next.data(),
                                                next.size());
  };
}

ProductLoop VectorProducts() {
  return [](uint64_t products) { return HWY_DYNAMIC_DISPATCH(SumProductsImpl)(products); };
}

}  // namespace quire::bench
#endif  // HWY_ONCE
