// SPDX-License-Identifier: Apache-2.0
//
// The ops of CudaKernels(), one function each: each checks its sizes, plans and launches.
#ifndef QUIRE_KERNELS_CUDA_OPS_H_
#define QUIRE_KERNELS_CUDA_OPS_H_

#include "kernels/api/table.h"

namespace quire::kernels::cuda {

OpStatus NhdToHnd(const NhdToHndArgs& args);
OpStatus HndToNhd(const HndToNhdArgs& args);
OpStatus PlaceUnits(const PlaceUnitsArgs& args);
OpStatus Digest(const DigestArgs& args);
OpStatus Score(const ScoreArgs& args);
OpStatus PoolQuery(const PoolQueryArgs& args);
OpStatus Pool(const PoolArgs& args);
OpStatus TopK(const TopKArgs& args);
OpStatus CorrectHeads(const CorrectHeadsArgs& args);
OpStatus PagedAttention(const PagedAttentionArgs& args);
OpStatus MlaAttention(const MlaAttentionArgs& args);
OpStatus MergeAttention(const MergeAttentionArgs& args);
OpStatus DenseAttention(const DenseAttentionArgs& args);
OpStatus RmsNorm(const RmsNormArgs& args);
OpStatus Rope(const RopeArgs& args);
OpStatus SiluMul(const SiluMulArgs& args);
OpStatus Matmul(const MatmulArgs& args);
OpStatus Add(const AddArgs& args);
OpStatus Embed(const EmbedArgs& args);
OpStatus ChooseExperts(const ChooseExpertsArgs& args);
OpStatus ExpertMatmul(const ExpertMatmulArgs& args);
OpStatus CombineExperts(const CombineExpertsArgs& args);
OpStatus SoftCap(const SoftCapArgs& args);
OpStatus Narrow(const NarrowArgs& args);
OpStatus Sample(const SampleArgs& args);

}  // namespace quire::kernels::cuda

#endif  // QUIRE_KERNELS_CUDA_OPS_H_
