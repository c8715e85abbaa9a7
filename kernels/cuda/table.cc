// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/ops.h"

namespace quire::kernels {
namespace {

constexpr KernelTable kTable = {
    .name = "CudaKernels",
    .nhd_to_hnd = cuda::NhdToHnd,
    .hnd_to_nhd = cuda::HndToNhd,
    .place_units = cuda::PlaceUnits,
    .digest = cuda::Digest,
    .score = cuda::Score,
    .pool_query = cuda::PoolQuery,
    .pool = cuda::Pool,
    .topk = cuda::TopK,
    .correct_heads = cuda::CorrectHeads,
    .paged_attention = cuda::PagedAttention,
    .mla_attention = cuda::MlaAttention,
    .merge_attention = cuda::MergeAttention,
    .dense_attention = cuda::DenseAttention,
    .rmsnorm = cuda::RmsNorm,
    .rope = cuda::Rope,
    .silu_mul = cuda::SiluMul,
    .matmul = cuda::Matmul,
    .add = cuda::Add,
    .embed = cuda::Embed,
    .choose_experts = cuda::ChooseExperts,
    .expert_matmul = cuda::ExpertMatmul,
    .combine_experts = cuda::CombineExperts,
    .soft_cap = cuda::SoftCap,
    .narrow = cuda::Narrow,
    .sample = cuda::Sample,
};

}  // namespace

const KernelTable& CudaKernels() { return kTable; }

}  // namespace quire::kernels
