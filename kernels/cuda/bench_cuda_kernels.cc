// SPDX-License-Identifier: Apache-2.0
//
// Times the CUDA kernels at the shapes of bench_kit.h and of a latent model. Each is compared with
// the copy bandwidth of the device: bytes that it must read and write, by time, over that of
// cudaMemcpyAsync. The goals are `score_vs_copy`, `attention_vs_copy` and `convert_vs_copy`
// (rotated). Use: quire_bench_cuda_kernels [repeats]. Every figure is a median; the last line is
// JSON, ratios first. Without a device that line has the reason, and the exit code is 0.
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "kernels/cuda/cuda_kernels.h"
#include "kernels/testing/bench_kit.h"

namespace quire::kernels {
namespace {

using namespace bench;

constexpr int64_t kBatch = 32;
constexpr int64_t kSlots = kBatch * kBudgetSlots;  // 128 MiB of K and as much V
constexpr int64_t kDigestPages = 65536;            // 256 MiB of digests
constexpr int64_t kLatentDim = 512, kRopeDim = 64, kLatentHeads = 16;
constexpr int64_t kCopyBytes = int64_t{1} << 30;
constexpr int64_t kPrompt = 4096;

void Must(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  exit(1);
}
void Must(OpStatus status, const char* what) {
  if (status == OpStatus::kOk) return;
  fprintf(stderr, "%s: %s\n", what, Describe(status));
  exit(1);
}

/// Device memory.
class Array {
 public:
  explicit Array(int64_t bytes) : bytes_(bytes) {
    Must(cudaMalloc(&data_, static_cast<size_t>(bytes)), "cudaMalloc");
  }
  ~Array() { (void)cudaFree(data_); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  template <typename T>
  static Array Of(const std::vector<T>& values) {
    Array array(static_cast<int64_t>(values.size() * sizeof(T)));
    Must(cudaMemcpy(array.data_, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice),
         "copy to the device");
    return array;
  }
  Array(Array&& other) noexcept : data_(other.data_), bytes_(other.bytes_) {
    other.data_ = nullptr;
  }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  int64_t bytes_;
};

/// Device memory of bf16 numbers: a stretch of them, repeated.
Array DeviceElements(int64_t n) {
  const std::vector<uint16_t> stretch = RandomElements(1 << 20);
  Array array(n * kElementBytes);
  const auto bytes = static_cast<int64_t>(stretch.size() * kElementBytes);
  for (int64_t at = 0; at < array.bytes(); at += bytes) {
    const auto part = static_cast<size_t>(std::min(bytes, array.bytes() - at));
    Must(cudaMemcpy(array.as<char>() + at, stretch.data(), part, cudaMemcpyHostToDevice), "fill");
  }
  return array;
}

class Timer {
 public:
  explicit Timer(int repeats) : repeats_(repeats) {
    Must(cudaStreamCreate(&stream_), "cudaStreamCreate");
    Must(cudaEventCreate(&start_), "cudaEventCreate");
    Must(cudaEventCreate(&end_), "cudaEventCreate");
  }
  void* stream() const { return stream_; }

  /// Median seconds on the device; the first run warms up.
  double Run(const char* what, const std::function<OpStatus()>& job) const {
    std::vector<float> times;
    for (int repeat = -1; repeat < repeats_; ++repeat) {
      Must(cudaEventRecord(start_, stream_), what);
      Must(job(), what);
      Must(cudaEventRecord(end_, stream_), what);
      Must(cudaEventSynchronize(end_), what);
      float milliseconds = 0;
      Must(cudaEventElapsedTime(&milliseconds, start_, end_), what);
      if (repeat >= 0) times.push_back(milliseconds);
    }
    return 1e-3 * static_cast<double>(Median(std::move(times)));
  }

 private:
  int repeats_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t start_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

class Report {
 public:
  Report(const Timer& timer, double copy_bandwidth)
      : timer_(timer), copy_bandwidth_(copy_bandwidth) {
    figures_.Raw("copy_gb_s", 1e-9 * copy_bandwidth);
  }
  /// Times a job that must move `bytes`: its bandwidth over that of a copy.
  void Moves(const std::string& name, int64_t bytes, const std::function<OpStatus()>& job) {
    const double seconds = timer_.Run(name.c_str(), job);
    const double bandwidth = static_cast<double>(bytes) / seconds;
    figures_.Ratio(name + "_vs_copy", bandwidth / copy_bandwidth_);
    figures_.Raw(name + "_us", 1e6 * seconds);
  }
  void Takes(const std::string& name, const std::function<OpStatus()>& job) {
    figures_.Raw(name + "_us", 1e6 * timer_.Run(name.c_str(), job));
  }
  void Computes(const std::string& name, double operations, const std::function<OpStatus()>& job) {
    figures_.Raw(name + "_tflop_s", 1e-12 * operations / timer_.Run(name.c_str(), job));
  }
  void Print(const char* device) const {
    figures_.Print("\"batch\":" + std::to_string(kBatch) + ",\"device\":\"" + device + "\"");
  }

 private:
  const Timer& timer_;
  double copy_bandwidth_;
  Figures figures_;
};

double CopyBandwidth(const Timer& timer) {
  const Array from(kCopyBytes), to(kCopyBytes);
  const double seconds = timer.Run("copy", [&] {
    Must(cudaMemcpyAsync(to.data(), from.data(), static_cast<size_t>(kCopyBytes),
                         cudaMemcpyDeviceToDevice, static_cast<cudaStream_t>(timer.stream())),
         "copy");
    return OpStatus::kOk;
  });
  return 2.0 * static_cast<double>(kCopyBytes) / seconds;
}

void BenchSelect(const Timer& timer, Report* report) {
  const KernelTable& ops = CudaKernels();
  const Array digests = DeviceElements(kDigestPages * kKvHeads * 2 * kDim);
  const Array q = Array::Of(RandomFloats(kQueryHeads * kDim));
  const Array scores(kQueryHeads * kDigestPages * 4), pooled(kKvHeads * kDigestPages * 4);
  const Array best(kKvHeads * kSelected * 4), list((kKvHeads + 1) * 4), cosines(kKvHeads * 4);
  report->Moves("score", ScoreBytes(kDigestPages), [&] {
    return ops.score({.q = q.as<float>(),
                      .digests = digests.data(),
                      .scores = scores.as<float>(),
                      .n_pages = kDigestPages,
                      .n_q = kQueryHeads,
                      .n_kv = kKvHeads,
                      .head_dim = kDim,
                      .dtype = DType::kBF16,
                      .stream = timer.stream()});
  });
  for (const int64_t pages : {int64_t{1024}, kDigestPages}) {
    const std::string suffix = "_" + std::to_string(pages);
    report->Takes("pool" + suffix, [&] {
      return ops.pool({.scores = scores.as<float>(),
                       .pooled = pooled.as<float>(),
                       .n_q = kQueryHeads,
                       .n_kv = kKvHeads,
                       .n_pages = pages,
                       .stream = timer.stream()});
    });
    report->Takes("topk" + suffix, [&] {
      return ops.topk({.scores = pooled.as<float>(),
                       .indices = best.as<int32_t>(),
                       .n_rows = kKvHeads,
                       .n_pages = pages,
                       .k = kSelected,
                       .stream = timer.stream()});
    });
  }
  report->Takes("correct_heads", [&] {
    return ops.correct_heads({.q = q.as<float>(),
                              .before = q.as<float>(),
                              .cosines = cosines.as<float>(),
                              .corrected = list.as<int32_t>() + 1,
                              .n_corrected = list.as<int32_t>(),
                              .n_q = kQueryHeads,
                              .n_kv = kKvHeads,
                              .head_dim = kDim,
                              .stream = timer.stream()});
  });
}

void BenchConversion(const Timer& timer, Report* report) {
  const KernelTable& ops = CudaKernels();
  const UnitShape unit{kPageTokens, kDim, true, DType::kBF16};
  const int64_t n = kSlots * kKvHeads;
  const Array units = DeviceElements(n * unit.raw_bytes() / 2);
  const Array k(units.bytes() / 2), v(units.bytes() / 2);
  const std::vector<int32_t> order = Shuffled(kSlots);
  const Array places = Array::Of(Placements(order)), slots = Array::Of(order);
  const Array rotations = Array::Of(std::vector<int32_t>(static_cast<size_t>(n), 0));
  const Array angles = Array::Of(std::vector<float>(kDim / 2, std::sqrt(0.5f)));
  PlaceUnitsArgs args{.encoded = units.data(),
                      .placements = places.as<UnitPlacement>(),
                      .cos_table = angles.as<float>(),
                      .sin_table = angles.as<float>(),
                      .k_pool = k.data(),
                      .v_pool = v.data(),
                      .num_slots = kSlots,
                      .n_units = n,
                      .n_kv = kKvHeads,
                      .n_rotations = 1,
                      .rotary_dim = kDim,
                      .shape = unit,
                      .stream = timer.stream()};
  report->Moves("convert_unrotated", ConvertBytes(kSlots), [&] { return ops.place_units(args); });
  args.rotations = rotations.as<int32_t>();
  report->Moves("convert", ConvertBytes(kSlots), [&] { return ops.place_units(args); });
  for (const UnitCodec codec : {UnitCodec::kFp8E4M3, UnitCodec::kInt8, UnitCodec::kInt4}) {
    const char* names[] = {"fp8", "int8", "int4"};
    const std::string name = names[static_cast<int>(codec) - static_cast<int>(UnitCodec::kFp8E4M3)];
    args.codec = codec;
    report->Moves("convert_" + name, n * EncodedUnitBytes(codec, unit) + units.bytes(),
                  [&] { return ops.place_units(args); });
  }
  report->Moves("hnd_to_nhd", ConvertBytes(kSlots), [&] {
    return ops.hnd_to_nhd({.units = units.data(),
                           .placements = places.as<UnitPlacement>(),
                           .k_pool = k.data(),
                           .v_pool = v.data(),
                           .num_slots = kSlots,
                           .n_units = n,
                           .page_tokens = kPageTokens,
                           .n_kv = kKvHeads,
                           .head_dim = kDim,
                           .dtype = DType::kBF16,
                           .stream = timer.stream()});
  });
  report->Moves("nhd_to_hnd", ConvertBytes(kSlots), [&] {
    return ops.nhd_to_hnd({.k_pool = k.data(),
                           .v_pool = v.data(),
                           .slots = slots.as<int32_t>(),
                           .units = units.data(),
                           .num_slots = kSlots,
                           .n_pages = kSlots,
                           .page_tokens = kPageTokens,
                           .n_kv = kKvHeads,
                           .head_dim = kDim,
                           .last_page_rows = kPageTokens,
                           .dtype = DType::kBF16,
                           .stream = timer.stream()});
  });
  const Array digests(n * 2 * kDim * 2);
  report->Moves("digest", units.bytes() / 2 + digests.bytes(), [&] {
    return ops.digest({.units = units.data(),
                       .unit_stride = 2 * kPageTokens * kDim,
                       .digests = digests.data(),
                       .n_units = n,
                       .page_tokens = kPageTokens,
                       .head_dim = kDim,
                       .dtype = DType::kBF16,
                       .out_dtype = DType::kBF16,
                       .stream = timer.stream()});
  });
}

void BenchAttention(const Timer& timer, Report* report) {
  const KernelTable& ops = CudaKernels();
  const int64_t rows = kSlots * kPageTokens * kKvHeads * kDim;
  const Array k = DeviceElements(rows), v = DeviceElements(rows);
  const Array slots = Array::Of(Shuffled(kSlots));
  const Array valid =
      Array::Of(std::vector<int32_t>(static_cast<size_t>(kSlots * kKvHeads), int32_t{kPageTokens}));
  const Array q = Array::Of(RandomFloats(kBatch * kQueryHeads * kDim));
  const Array out(kBatch * kQueryHeads * kDim * 4);
  const Array workspace(16 * AttentionSplitBytes(kBatch * kQueryHeads, kDim));
  const Array scales = Array::Of(std::vector<float>(static_cast<size_t>(kSlots * kKvHeads), 1.0f));
  PagedAttentionArgs args{.q = q.as<float>(),
                          .k_pool = k.data(),
                          .v_pool = v.data(),
                          .k_scales = scales.as<float>(),
                          .v_scales = scales.as<float>(),
                          .slots = slots.as<int32_t>(),
                          .valid_tokens = valid.as<int32_t>(),
                          .out = out.as<float>(),
                          .batch = kBatch,
                          .num_slots = kSlots,
                          .n_slots = kBudgetSlots,
                          .page_tokens = kPageTokens,
                          .n_q = kQueryHeads,
                          .n_kv = kKvHeads,
                          .head_dim = kDim,
                          .scale = kScale,
                          .dtype = DType::kBF16,
                          .workspace = workspace.data(),
                          .workspace_bytes = workspace.bytes(),
                          .stream = timer.stream()};
  report->Moves("attention", KvBytes(kSlots), [&] { return ops.paged_attention(args); });
  args.fp8_pools = true;
  report->Moves("attention_fp8", KvBytes(kSlots) / 2, [&] { return ops.paged_attention(args); });
  args.fp8_pools = false;
  args.batch = 1;
  report->Takes("attention_one_sequence", [&] { return ops.paged_attention(args); });
}

void BenchLatents(const Timer& timer, Report* report) {
  const int64_t width = kLatentDim + kRopeDim;
  const Array pool = DeviceElements(kSlots * kPageTokens * width);
  const Array slots = Array::Of(Shuffled(kSlots));
  const Array valid =
      Array::Of(std::vector<int32_t>(static_cast<size_t>(kSlots), int32_t{kPageTokens}));
  const Array q = Array::Of(RandomFloats(kBatch * kLatentHeads * width));
  const Array out(kBatch * kLatentHeads * kLatentDim * 4);
  const Array workspace(16 * AttentionSplitBytes(kBatch * kLatentHeads, kLatentDim));
  report->Moves("mla_attention", pool.bytes(), [&] {
    return CudaKernels().mla_attention({.q = q.as<float>(),
                                        .pool = pool.data(),
                                        .slots = slots.as<int32_t>(),
                                        .valid_tokens = valid.as<int32_t>(),
                                        .out = out.as<float>(),
                                        .batch = kBatch,
                                        .num_slots = kSlots,
                                        .n_slots = kBudgetSlots,
                                        .page_tokens = kPageTokens,
                                        .n_q = kLatentHeads,
                                        .latent_dim = kLatentDim,
                                        .rope_dim = kRopeDim,
                                        .scale = 0.07f,
                                        .dtype = DType::kBF16,
                                        .workspace = workspace.data(),
                                        .workspace_bytes = workspace.bytes(),
                                        .stream = timer.stream()});
  });
}

void BenchPrefill(const Timer& timer, Report* report) {
  const Array q = Array::Of(RandomFloats(kPrompt * kQueryHeads * kDim));
  const Array k = DeviceElements(kPrompt * kKvHeads * kDim);
  const Array out(kPrompt * kQueryHeads * kDim * 4);
  const double causal = 2.0 * static_cast<double>(kPrompt * kPrompt * kDim * kQueryHeads);
  report->Computes("dense_attention", causal, [&] {
    return CudaKernels().dense_attention({.q = q.as<float>(),
                                          .k = k.data(),
                                          .v = k.data(),
                                          .out = out.as<float>(),
                                          .t = kPrompt,
                                          .n = kPrompt,
                                          .n_q = kQueryHeads,
                                          .n_kv = kKvHeads,
                                          .head_dim = kDim,
                                          .scale = kScale,
                                          .dtype = DType::kBF16,
                                          .stream = timer.stream()});
  });
}

/// Times one token over as many keys as all slots hold.
void BenchToken(const Timer& timer, Report* report) {
  const int64_t keys = kSlots * kPageTokens;
  const Array k = DeviceElements(keys * kKvHeads * kDim),
              v = DeviceElements(keys * kKvHeads * kDim);
  const Array q = Array::Of(RandomFloats(kQueryHeads * kDim));
  const Array out(kQueryHeads * kDim * 4);
  const Array workspace(64 * AttentionSplitBytes(kQueryHeads, kDim));
  report->Moves("dense_attention_token", KvBytes(kSlots), [&] {
    return CudaKernels().dense_attention({.q = q.as<float>(),
                                          .k = k.data(),
                                          .v = v.data(),
                                          .out = out.as<float>(),
                                          .t = 1,
                                          .n = keys,
                                          .n_q = kQueryHeads,
                                          .n_kv = kKvHeads,
                                          .head_dim = kDim,
                                          .scale = kScale,
                                          .dtype = DType::kBF16,
                                          .workspace = workspace.data(),
                                          .workspace_bytes = workspace.bytes(),
                                          .stream = timer.stream()});
  });
}

int Run(int repeats) {
  int devices = 0;
  cudaError_t error = cudaGetDeviceCount(&devices);
  if (error == cudaSuccess && devices == 0) error = cudaErrorNoDevice;
  if (error != cudaSuccess) {
    printf("{\"skipped\":\"no CUDA device: %s\"}\n", cudaGetErrorString(error));
    return 0;
  }
  cudaDeviceProp device{};
  Must(cudaGetDeviceProperties(&device, 0), "cudaGetDeviceProperties");
  const Timer timer(repeats);
  Report report(timer, CopyBandwidth(timer));
  BenchSelect(timer, &report);
  BenchConversion(timer, &report);
  BenchAttention(timer, &report);
  BenchLatents(timer, &report);
  BenchPrefill(timer, &report);
  BenchToken(timer, &report);
  report.Print(device.name);
  return 0;
}

}  // namespace
}  // namespace quire::kernels

int main(int argc, char** argv) {
  return quire::kernels::Run(argc > 1 ? std::max(1, atoi(argv[1])) : 20);
}
