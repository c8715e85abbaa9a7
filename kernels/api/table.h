// SPDX-License-Identifier: Apache-2.0
//
// KernelTable: one function pointer per op; each device provides a table. An op without a kernel is
// null. Tables are constants with static lifetime. Accessors: CpuReference() and CpuKernels()
// (kernels/cpu/cpu_kernels.h), CudaKernels() (kernels/cuda/cuda_kernels.h).
//
//   const KernelTable& ops = CpuKernels();
//   if (OpStatus s = ops.topk({.scores = w, .indices = out, .n_rows = n_kv, .n_pages = n, .k = k});
//       s != OpStatus::kOk) ...
#ifndef QUIRE_KERNELS_API_TABLE_H_
#define QUIRE_KERNELS_API_TABLE_H_

#include "kernels/api/add.h"
#include "kernels/api/choose_experts.h"
#include "kernels/api/codec.h"
#include "kernels/api/combine_experts.h"
#include "kernels/api/correct_heads.h"
#include "kernels/api/dense_attention.h"
#include "kernels/api/digest.h"
#include "kernels/api/embed.h"
#include "kernels/api/expert_matmul.h"
#include "kernels/api/matmul.h"
#include "kernels/api/merge_attention.h"
#include "kernels/api/mla_attention.h"
#include "kernels/api/narrow.h"
#include "kernels/api/paged_attention.h"
#include "kernels/api/place_units.h"
#include "kernels/api/pool.h"
#include "kernels/api/rmsnorm.h"
#include "kernels/api/rope.h"
#include "kernels/api/sample.h"
#include "kernels/api/score.h"
#include "kernels/api/silu_mul.h"
#include "kernels/api/soft_cap.h"
#include "kernels/api/status.h"
#include "kernels/api/topk.h"
#include "kernels/api/transpose.h"

namespace quire::kernels {

struct KernelTable {
  const char* name = "";  ///< For logs and test names: letters and digits, a literal.
  NhdToHndFn nhd_to_hnd = nullptr;
  HndToNhdFn hnd_to_nhd = nullptr;
  EncodeUnitFn encode_unit = nullptr;
  DecodeUnitFn decode_unit = nullptr;
  PlaceUnitsFn place_units = nullptr;
  DigestFn digest = nullptr;
  ScoreFn score = nullptr;
  PoolQueryFn pool_query = nullptr;
  PoolFn pool = nullptr;
  TopKFn topk = nullptr;
  CorrectHeadsFn correct_heads = nullptr;
  PagedAttentionFn paged_attention = nullptr;
  MlaAttentionFn mla_attention = nullptr;
  MergeAttentionFn merge_attention = nullptr;
  DenseAttentionFn dense_attention = nullptr;
  RmsNormFn rmsnorm = nullptr;
  RopeFn rope = nullptr;
  SiluMulFn silu_mul = nullptr;
  MatmulFn matmul = nullptr;
  AddFn add = nullptr;
  EmbedFn embed = nullptr;
  ChooseExpertsFn choose_experts = nullptr;
  ExpertMatmulFn expert_matmul = nullptr;
  CombineExpertsFn combine_experts = nullptr;
  SoftCapFn soft_cap = nullptr;
  NarrowFn narrow = nullptr;
  SampleFn sample = nullptr;
};

}  // namespace quire::kernels

#endif  // QUIRE_KERNELS_API_TABLE_H_
