// SPDX-License-Identifier: Apache-2.0
//
// The ops of CpuKernels() that differ from the reference. They run on one thread, apart from
// OpenBLAS inside a product. Scratch is allocated per call.
#ifndef QUIRE_KERNELS_CPU_FAST_FAST_H_
#define QUIRE_KERNELS_CPU_FAST_FAST_H_

#include "kernels/api/table.h"

namespace quire::kernels::fast {

OpStatus NhdToHnd(const NhdToHndArgs& args);
OpStatus HndToNhd(const HndToNhdArgs& args);
OpStatus EncodeUnit(const EncodeUnitArgs& args);
OpStatus DecodeUnit(const DecodeUnitArgs& args);
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
OpStatus ExpertMatmul(const ExpertMatmulArgs& args);
OpStatus CombineExperts(const CombineExpertsArgs& args);
OpStatus SoftCap(const SoftCapArgs& args);
OpStatus Narrow(const NarrowArgs& args);
OpStatus Sample(const SampleArgs& args);

/// Computes digests of a kind other than kMinMax. REQUIRES: arguments that passed Check.
void DigestUnits(const DigestArgs& args);

}  // namespace quire::kernels::fast

#endif  // QUIRE_KERNELS_CPU_FAST_FAST_H_
