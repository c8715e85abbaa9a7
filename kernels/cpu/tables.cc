// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/fast/fast.h"
#include "kernels/cpu/reference/reference.h"

namespace quire::kernels {
namespace {

constexpr KernelTable kReference = {
    .name = "CpuReference",
    .nhd_to_hnd = reference::NhdToHnd,
    .hnd_to_nhd = reference::HndToNhd,
    .encode_unit = reference::EncodeUnit,
    .decode_unit = reference::DecodeUnit,
    .place_units = reference::PlaceUnits,
    .digest = reference::Digest,
    .score = reference::Score,
    .pool_query = reference::PoolQuery,
    .pool = reference::Pool,
    .topk = reference::TopK,
    .correct_heads = reference::CorrectHeads,
    .paged_attention = reference::PagedAttention,
    .mla_attention = reference::MlaAttention,
    .merge_attention = reference::MergeAttention,
    .dense_attention = reference::DenseAttention,
    .rmsnorm = reference::RmsNorm,
    .rope = reference::Rope,
    .silu_mul = reference::SiluMul,
    .matmul = reference::Matmul,
    .add = reference::Add,
    .embed = reference::Embed,
    .choose_experts = reference::ChooseExperts,
    .expert_matmul = reference::ExpertMatmul,
    .combine_experts = reference::CombineExperts,
    .soft_cap = reference::SoftCap,
    .narrow = reference::Narrow,
    .sample = reference::Sample,
};

// Uses the reference's embed, a copy of each row, as fast as memory, and its choose_experts, a sort
// of few numbers.
constexpr KernelTable kFast = {
    .name = "CpuKernels",
    .nhd_to_hnd = fast::NhdToHnd,
    .hnd_to_nhd = fast::HndToNhd,
    .encode_unit = fast::EncodeUnit,
    .decode_unit = fast::DecodeUnit,
    .place_units = fast::PlaceUnits,
    .digest = fast::Digest,
    .score = fast::Score,
    .pool_query = fast::PoolQuery,
    .pool = fast::Pool,
    .topk = fast::TopK,
    .correct_heads = fast::CorrectHeads,
    .paged_attention = fast::PagedAttention,
    .mla_attention = fast::MlaAttention,
    .merge_attention = fast::MergeAttention,
    .dense_attention = fast::DenseAttention,
    .rmsnorm = fast::RmsNorm,
    .rope = fast::Rope,
    .silu_mul = fast::SiluMul,
    .matmul = fast::Matmul,
    .add = fast::Add,
    .embed = reference::Embed,
    .choose_experts = reference::ChooseExperts,
    .expert_matmul = fast::ExpertMatmul,
    .combine_experts = fast::CombineExperts,
    .soft_cap = fast::SoftCap,
    .narrow = fast::Narrow,
    .sample = fast::Sample,
};

}  // namespace

const KernelTable& CpuReference() { return kReference; }
const KernelTable& CpuKernels() { return kFast; }

}  // namespace quire::kernels
