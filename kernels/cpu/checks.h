// SPDX-License-Identifier: Apache-2.0
//
// The argument checks that kernels/api specifies, shared by all tables. CheckSizes reads the struct
// only and suits any device. Check also reads the lists (slots, positions, ids), which must lie in
// host memory. An op without lists has only Check.
//
// Returns kOk, kBadShape or kUnsupported. After kOk with a size of zero, pointers may be null: an
// op returns before it uses them.
#ifndef QUIRE_KERNELS_CPU_CHECKS_H_
#define QUIRE_KERNELS_CPU_CHECKS_H_

#include "kernels/api/table.h"

namespace quire::kernels {

OpStatus CheckSizes(const NhdToHndArgs& args);
OpStatus CheckSizes(const HndToNhdArgs& args);
OpStatus CheckSizes(const EncodeUnitArgs& args);
OpStatus CheckSizes(const DecodeUnitArgs& args);
OpStatus CheckSizes(const PlaceUnitsArgs& args);
OpStatus CheckSizes(const DigestArgs& args);
OpStatus CheckSizes(const ScoreArgs& args);
OpStatus CheckSizes(const PagedAttentionArgs& args);
OpStatus CheckSizes(const MlaAttentionArgs& args);
OpStatus CheckSizes(const DenseAttentionArgs& args);
OpStatus CheckSizes(const RopeArgs& args);
OpStatus CheckSizes(const EmbedArgs& args);
OpStatus CheckSizes(const ExpertMatmulArgs& args);
OpStatus CheckSizes(const NarrowArgs& args);

OpStatus Check(const NhdToHndArgs& args);
OpStatus Check(const HndToNhdArgs& args);
OpStatus Check(const EncodeUnitArgs& args);
OpStatus Check(const DecodeUnitArgs& args);
OpStatus Check(const PlaceUnitsArgs& args);
OpStatus Check(const DigestArgs& args);
OpStatus Check(const ScoreArgs& args);
OpStatus Check(const PoolQueryArgs& args);
OpStatus Check(const PoolArgs& args);
OpStatus Check(const TopKArgs& args);
OpStatus Check(const CorrectHeadsArgs& args);
OpStatus Check(const PagedAttentionArgs& args);
OpStatus Check(const MlaAttentionArgs& args);
OpStatus Check(const MergeAttentionArgs& args);
OpStatus Check(const DenseAttentionArgs& args);
OpStatus Check(const RmsNormArgs& args);
OpStatus Check(const RopeArgs& args);
OpStatus Check(const SiluMulArgs& args);
OpStatus Check(const MatmulArgs& args);
OpStatus Check(const AddArgs& args);
OpStatus Check(const EmbedArgs& args);
OpStatus Check(const ChooseExpertsArgs& args);
OpStatus Check(const ExpertMatmulArgs& args);
OpStatus Check(const CombineExpertsArgs& args);
OpStatus Check(const SoftCapArgs& args);
OpStatus Check(const NarrowArgs& args);
OpStatus Check(const SampleArgs& args);
/// False for a draw that gives -1.
bool InRange(const SampleDraw& draw);

}  // namespace quire::kernels

#endif  // QUIRE_KERNELS_CPU_CHECKS_H_
