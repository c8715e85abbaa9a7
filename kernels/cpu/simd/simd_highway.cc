// SPDX-License-Identifier: Apache-2.0
//
// Implements simd.h, simd_codec.h and simd_targets.h with Highway. foreach_target.h compiles this
// file once per instruction set; the exported functions at the end choose at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/simd/simd_highway.cc"
#include <hwy/foreach_target.h>  // Must come before highway.h and the -inl headers.

// clang-format off
#include <hwy/highway.h>
#include "kernels/cpu/simd/simd_codec-inl.h"
#include "kernels/cpu/simd/simd_convert-inl.h"
#include "kernels/cpu/simd/simd_reduce-inl.h"
#include "kernels/cpu/simd/simd_rows-inl.h"
#include "kernels/cpu/simd/simd_score-inl.h"
#include "kernels/cpu/simd/simd_softmax-inl.h"
// clang-format on

#if HWY_ONCE
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/simd_codec.h"
#include "kernels/cpu/simd/simd_targets.h"

namespace quire::kernels::simd {

HWY_EXPORT(WidenImpl);
HWY_EXPORT(WidenRowsImpl);
HWY_EXPORT(NarrowImpl);
HWY_EXPORT(MinMaxRowsImpl);
HWY_EXPORT(MeanRowsImpl);
HWY_EXPORT(MeanDistancesImpl);
HWY_EXPORT(SquaredDistancesImpl);
HWY_EXPORT(ScoresImpl);
HWY_EXPORT(DotImpl);
HWY_EXPORT(DotsImpl);
HWY_EXPORT(WeightedSumImpl);
HWY_EXPORT(MaxNumberImpl);
HWY_EXPORT(ExpInPlaceImpl);
HWY_EXPORT(SoftmaxWeightsImpl);
HWY_EXPORT(SiluMulImpl);
HWY_EXPORT(AddImpl);
HWY_EXPORT(TargetNameImpl);
HWY_EXPORT(FindExtremesImpl);
HWY_EXPORT(RowAbsMaxImpl);
HWY_EXPORT(RowExtremesImpl);
HWY_EXPORT(MakeInt8ParamsImpl);
HWY_EXPORT(MakeInt4ParamsImpl);
HWY_EXPORT(EncodeFp8Impl);
HWY_EXPORT(DecodeFp8Impl);
HWY_EXPORT(EncodeInt8Impl);
HWY_EXPORT(DecodeInt8Impl);
HWY_EXPORT(EncodeInt4RowImpl);
HWY_EXPORT(DecodeInt4RowImpl);

std::vector<int64_t> Targets() { return hwy::SupportedAndGeneratedTargets(); }
void UseTarget(int64_t target) { hwy::GetChosenTarget().Update(target); }

const char* TargetName() { return HWY_DYNAMIC_DISPATCH(TargetNameImpl)(); }

void Widen(const void* src, DType dtype, int64_t n, float* dst) {
  HWY_DYNAMIC_DISPATCH(WidenImpl)(src, dtype, n, dst);
}
void WidenRows(const void* src, int64_t stride, DType dtype, int64_t rows, int64_t d, float* dst) {
  HWY_DYNAMIC_DISPATCH(WidenRowsImpl)(src, stride, dtype, rows, d, dst);
}
void Narrow(const float* src, int64_t n, DType dtype, void* dst) {
  HWY_DYNAMIC_DISPATCH(NarrowImpl)(src, n, dtype, dst);
}
void MinMaxRows(const void* rows, DType dtype, int64_t n_rows, int64_t d, float* lo, float* hi) {
  HWY_DYNAMIC_DISPATCH(MinMaxRowsImpl)(rows, dtype, n_rows, d, lo, hi);
}
void MeanRows(const float* rows, int64_t n_rows, int64_t d, float* mean) {
  HWY_DYNAMIC_DISPATCH(MeanRowsImpl)(rows, n_rows, d, mean);
}
void MeanDistances(const float* rows, int64_t n_rows, int64_t d, const float* centre, float* mean) {
  HWY_DYNAMIC_DISPATCH(MeanDistancesImpl)(rows, n_rows, d, centre, mean);
}
void SquaredDistances(const float* rows, int64_t n_rows, int64_t d, const float* centre,
                      double* squares) {
  HWY_DYNAMIC_DISPATCH(SquaredDistancesImpl)(rows, n_rows, d, centre, squares);
}
void Scores(const ScoreRun& run, const ScorePages* parts, int64_t n_parts, float* out) {
  HWY_DYNAMIC_DISPATCH(ScoresImpl)(run, parts, n_parts, out);
}
float Dot(const float* a, const float* b, int64_t n) {
  return HWY_DYNAMIC_DISPATCH(DotImpl)(a, b, n);
}
void Dots(const float* a, int64_t m, const StoredRows& b, int64_t n, int64_t d, float* out) {
  HWY_DYNAMIC_DISPATCH(DotsImpl)(a, m, b, n, d, out);
}
void WeightedSum(const float* w, int64_t m, const StoredRows& v, int64_t n, int64_t d, float* acc) {
  HWY_DYNAMIC_DISPATCH(WeightedSumImpl)(w, m, v, n, d, acc);
}
float MaxNumber(const float* x, int64_t n) { return HWY_DYNAMIC_DISPATCH(MaxNumberImpl)(x, n); }
float ExpInPlace(float* x, int64_t n, float shift) {
  return HWY_DYNAMIC_DISPATCH(ExpInPlaceImpl)(x, n, shift);
}
float SoftmaxWeights(const float* row, int64_t n, float factor, float* weights) {
  return HWY_DYNAMIC_DISPATCH(SoftmaxWeightsImpl)(row, n, factor, weights);
}
void SiluMul(const float* gate, const float* up, int64_t n, float* y) {
  HWY_DYNAMIC_DISPATCH(SiluMulImpl)(gate, up, n, y);
}
void Add(const float* a, const float* b, int64_t n, float* y) {
  HWY_DYNAMIC_DISPATCH(AddImpl)(a, b, n, y);
}

codec::Extremes FindExtremes(const void* src, DType dtype, int64_t n) {
  return HWY_DYNAMIC_DISPATCH(FindExtremesImpl)(src, dtype, n);
}
void RowAbsMax(const void* rows, DType dtype, int64_t n_rows, int64_t d, float* absmax) {
  HWY_DYNAMIC_DISPATCH(RowAbsMaxImpl)(rows, dtype, n_rows, d, absmax);
}
void RowExtremes(const void* rows, DType dtype, int64_t n_rows, int64_t d, float* low,
                 float* high) {
  HWY_DYNAMIC_DISPATCH(RowExtremesImpl)(rows, dtype, n_rows, d, low, high);
}
void MakeInt8Params(const float* absmax, int64_t n, uint16_t* scale, float* inverse) {
  HWY_DYNAMIC_DISPATCH(MakeInt8ParamsImpl)(absmax, n, scale, inverse);
}
void MakeInt4Params(const float* low, const float* high, int64_t n, uint16_t* minimum,
                    uint16_t* scale, float* base, float* inverse) {
  HWY_DYNAMIC_DISPATCH(MakeInt4ParamsImpl)(low, high, n, minimum, scale, base, inverse);
}
void EncodeFp8(const void* src, DType dtype, int64_t n, float inverse, uint8_t* codes) {
  HWY_DYNAMIC_DISPATCH(EncodeFp8Impl)(src, dtype, n, inverse, codes);
}
void DecodeFp8(const uint8_t* codes, int64_t n, float scale, DType dtype, void* dst) {
  HWY_DYNAMIC_DISPATCH(DecodeFp8Impl)(codes, n, scale, dtype, dst);
}
void EncodeInt8(const void* src, DType dtype, int64_t n, float inverse, int8_t* codes) {
  HWY_DYNAMIC_DISPATCH(EncodeInt8Impl)(src, dtype, n, inverse, codes);
}
void DecodeInt8(const int8_t* codes, int64_t n, float scale, DType dtype, void* dst) {
  HWY_DYNAMIC_DISPATCH(DecodeInt8Impl)(codes, n, scale, dtype, dst);
}
void EncodeInt4Row(const void* src, DType dtype, int64_t d, const float* base, const float* inverse,
                   uint8_t* codes) {
  HWY_DYNAMIC_DISPATCH(EncodeInt4RowImpl)(src, dtype, d, base, inverse, codes);
}
void DecodeInt4Row(const uint8_t* codes, int64_t d, const float* base, const float* scale,
                   DType dtype, void* dst) {
  HWY_DYNAMIC_DISPATCH(DecodeInt4RowImpl)(codes, d, base, scale, dtype, dst);
}

}  // namespace quire::kernels::simd
#endif  // HWY_ONCE
