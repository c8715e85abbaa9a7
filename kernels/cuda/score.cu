// SPDX-License-Identifier: Apache-2.0
//
// A block is one warp. It copies the digests of up to 32 pages of one KV head to shared memory, row
// by row. Then each lane scores one page for several query heads. A score is summed in the order of
// kernels/api/score.h: 8 partial sums, which a lane holds in registers.
#include <algorithm>

#include "kernels/cpu/checks.h"
#include "kernels/cpu/digest_block.h"
#include "kernels/cpu/score_terms.h"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/ops.h"

namespace quire::kernels::cuda {
namespace {

constexpr int kWarp = 32;
constexpr int kSums = 8;
constexpr int64_t kBlocksPerProcessor = 32;

struct Shape {
  const float* q;
  const void* digests;
  const void* const* blocks;
  float* scores;
  int64_t pages_per_block, first_page, n_pages, score_stride;
  int64_t n_kv, group, d, terms, padded;  ///< `padded`: terms rounded up to a multiple of 8.
  int64_t query_row;                      ///< Terms, padded, and 8 of which the first is a radius'.
  int64_t elements, parts;                ///< A digest is parts * terms elements, and a radius.
  int64_t head_tiles, tile_pages;
  int64_t row_bytes;  ///< Bytes of a page in shared memory, 16 more than its parts.
  int64_t rotary_dim;
  DigestKind kind;
  float scale;
  bool interleaved, has_radius;
  const ScoreJob* jobs;  ///< A layer of the grid each; null for none.
  int64_t n_jobs;
};

/// Square root of the sum of squares of `n` channels, `step` apart, in f64 and rounded once.
/// Squares of f32 are exact there.
__device__ float Length(const float* q, int64_t n, int64_t step) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum = __dadd_rn(sum, __dmul_rn(q[i * step], q[i * step]));
  return static_cast<float>(sqrt(sum));
}

/// Factor i of a query's row (kernels/cpu/score_terms.cc).
__device__ float QueryTerm(const Shape& shape, const float* q, int64_t i) {
  if (i < shape.d) return q[i];
  if (i == shape.padded && shape.has_radius) return Length(q, shape.d, 1);
  if (i >= shape.terms) return 0;
  i -= shape.d;
  if (shape.kind == DigestKind::kCentreDeviation) return fabsf(q[i]);
  const int64_t half = shape.rotary_dim / 2;
  return shape.interleaved || i >= half ? Length(q + 2 * i, 2, 1) : Length(q + i, 2, half);
}

/// First element of the digest of a page for KV head g.
template <typename Raw>
__device__ const Raw* DigestOf(const Shape& shape, int64_t page, int64_t g) {
  const void* base = shape.digests;
  if (shape.blocks != nullptr) {
    base = shape.blocks[page / shape.pages_per_block];
    page %= shape.pages_per_block;
  }
  return static_cast<const Raw*>(base) + (page * shape.n_kv + g) * shape.elements;
}

/// Copies the digests of `count` pages to rows of shared memory. Every part is padded with zeros to
/// `padded` elements.
template <typename Raw>
__device__ void StagePages(const Shape& shape, int64_t first, int64_t count, int64_t g,
                           uint8_t* tile) {
  const int64_t bytes = shape.elements * static_cast<int64_t>(sizeof(Raw));
  const bool whole = shape.terms == shape.padded && bytes % 16 == 0;
  for (int64_t page = 0; page < count; ++page) {
    const Raw* from = DigestOf<Raw>(shape, first + page, g);
    uint8_t* row = tile + page * shape.row_bytes;
    if (whole && IsAligned(from, 16)) {
      for (int64_t at = int64_t{threadIdx.x} * 16; at < bytes; at += kWarp * 16) {
        CopyAsync16(row + at, reinterpret_cast<const uint8_t*>(from) + at, true);
      }
      continue;
    }
    Raw* to = reinterpret_cast<Raw*>(row);
    for (int64_t i = threadIdx.x; i < shape.parts * shape.padded; i += kWarp) {
      const int64_t term = i % shape.padded;
      to[i] = term < shape.terms ? from[i / shape.padded * shape.terms + term] : Raw{};
    }
  }
  AwaitCopies();
  __syncwarp();
}

template <typename T, bool kCorners, int kHeads>
__global__ void __launch_bounds__(kWarp) ScoreKernel(Shape shape) {
  using Raw = typename T::Raw;
  if (shape.jobs != nullptr) {
    const ScoreJob job = shape.jobs[blockIdx.z];
    shape.q = job.q;
    shape.digests = job.digests;
    shape.scores = job.scores;
    shape.score_stride = job.score_stride != 0 ? job.score_stride : job.n_pages;
    shape.first_page = job.first_page;
    shape.n_pages = job.n_pages;
  }
  float* queries = DynamicShared<float>();  // [kHeads][query_row]
  uint8_t* tile = reinterpret_cast<uint8_t*>(queries + kHeads * shape.query_row);
  const int64_t g = blockIdx.y / shape.head_tiles;
  const int64_t first_head = blockIdx.y % shape.head_tiles * kHeads;
  const int64_t left = shape.group - first_head;
  const int heads = left < kHeads ? static_cast<int>(left) : kHeads;
  const int64_t head = g * shape.group + first_head;
  for (int64_t i = threadIdx.x; i < kHeads * shape.query_row; i += kWarp) {
    const int64_t h = i / shape.query_row;
    queries[i] =
        h < heads ? QueryTerm(shape, shape.q + (head + h) * shape.d, i % shape.query_row) : 0.0f;
  }
  for (int64_t first = int64_t{blockIdx.x} * shape.tile_pages; first < shape.n_pages;
       first += int64_t{gridDim.x} * shape.tile_pages) {
    __syncwarp();  // Wait until the tile before has been read.
    const int64_t rest = shape.n_pages - first;
    const int64_t count = rest < shape.tile_pages ? rest : shape.tile_pages;
    StagePages<Raw>(shape, shape.first_page + first, count, g, tile);
    if (threadIdx.x >= count) continue;
    const Raw* low = reinterpret_cast<const Raw*>(tile + threadIdx.x * shape.row_bytes);
    const Raw* high = low + shape.padded;
    float sums[kHeads][kSums] = {};
    for (int64_t i = 0; i < shape.padded; i += kSums) {
      float a[kSums];
      float b[kSums] = {};
      Widen8<T>(low + i, a);
      if (kCorners) Widen8<T>(high + i, b);
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
        float q[kSums];
        Widen8<F32>(queries + h * shape.query_row + i, q);
#pragma unroll
        for (int j = 0; j < kSums; ++j) {
          sums[h][j] = fmaf(q[j], kCorners && q[j] >= 0 ? b[j] : a[j], sums[h][j]);
        }
      }
    }
    float radius = 0;
    if (shape.has_radius) {
      radius =
          T::Widen(DigestOf<Raw>(shape, shape.first_page + first + threadIdx.x, g)[shape.terms]);
    }
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      if (h >= heads) continue;
#pragma unroll
      for (int distance = kSums / 2; distance > 0; distance /= 2) {
        for (int j = 0; j < distance; ++j) sums[h][j] += sums[h][j + distance];
      }
      if (shape.has_radius) {
        sums[h][0] = fmaf(queries[h * shape.query_row + shape.padded], radius, sums[h][0]);
      }
      shape.scores[(head + h) * shape.score_stride + first + threadIdx.x] =
          shape.scale * sums[h][0];
    }
  }
}

/// Pages per tile: as many as 32 lanes handle and shared memory holds.
int64_t TilePages(int64_t row_bytes, int64_t query_bytes) {
  int64_t pages = kWarp;
  while (pages > 1 && query_bytes + pages * row_bytes > kSharedBytes) pages /= 2;
  return pages;
}

template <typename T, bool kCorners, int kHeads>
OpStatus LaunchScore(Shape shape, void* stream) {
  const int64_t query_bytes = kHeads * shape.query_row * 4;
  shape.row_bytes = shape.parts * shape.padded * static_cast<int64_t>(sizeof(typename T::Raw)) + 16;
  shape.tile_pages = TilePages(shape.row_bytes, query_bytes);
  shape.head_tiles = DivideUp(shape.group, kHeads);
  const int64_t shared = query_bytes + shape.tile_pages * shape.row_bytes;
  const int64_t rows = shape.n_kv * shape.head_tiles;
  if (shared > kSharedBytes || rows > kMaxGridYZ || shape.n_jobs > kMaxGridYZ) {
    return OpStatus::kUnsupported;
  }
  const int64_t wanted =
      std::max<int64_t>(1, Multiprocessors() * kBlocksPerProcessor / (rows * shape.n_jobs));
  const int64_t tiles = DivideUp(shape.n_pages, shape.tile_pages);
  return Launch(ScoreKernel<T, kCorners, kHeads>, Grid(std::min(tiles, wanted), rows, shape.n_jobs),
                Grid(kWarp), static_cast<size_t>(shared), stream, shape);
}

template <typename T, bool kCorners>
OpStatus ChooseHeads(const Shape& shape, void* stream) {
  if (shape.group == 1) return LaunchScore<T, kCorners, 1>(shape, stream);
  if (shape.group == 2) return LaunchScore<T, kCorners, 2>(shape, stream);
  if (shape.group <= 4) return LaunchScore<T, kCorners, 4>(shape, stream);
  return LaunchScore<T, kCorners, 8>(shape, stream);
}

}  // namespace

OpStatus Score(const ScoreArgs& args) {
  if (const OpStatus status = CheckSizes(args); status != OpStatus::kOk) return status;
  if (args.n_pages == 0 || (args.jobs != nullptr && args.n_jobs == 0)) return OpStatus::kOk;
  Shape shape{};
  shape.jobs = args.jobs;
  shape.n_jobs = args.jobs != nullptr ? args.n_jobs : 1;
  shape.q = args.q;
  shape.digests = args.digests;
  shape.blocks = args.blocks;
  shape.scores = args.scores;
  shape.pages_per_block = args.pages_per_block;
  shape.first_page = args.first_page;
  shape.n_pages = args.n_pages;
  shape.score_stride = ScoreStride(args);
  shape.n_kv = args.n_kv;
  shape.group = args.n_q / args.n_kv;
  shape.d = args.head_dim;
  shape.terms = ScoreTerms(args.kind, args.head_dim);
  shape.padded = RoundUp(shape.terms, kSums);
  shape.query_row = shape.padded + kSums;
  shape.elements = DigestElements(args.kind, args.head_dim);
  const bool corners = args.kind == DigestKind::kMinMax;
  shape.parts = corners ? 2 : 1;
  shape.rotary_dim = args.rotary_dim;
  shape.kind = args.kind;
  shape.scale = args.scale;
  shape.interleaved = args.interleaved;
  shape.has_radius = HasRadius(args.kind);
  return WithFormat(args.dtype, [&](auto format) {
    using T = decltype(format);
    return corners ? ChooseHeads<T, true>(shape, args.stream)
                   : ChooseHeads<T, false>(shape, args.stream);
  });
}

}  // namespace quire::kernels::cuda
