// SPDX-License-Identifier: Apache-2.0
//
// The op conformance suite, which every kernel table passes. The tests compare each op of a table
// with CpuReference() within the tolerance of its header (kernels/api/tolerance.h). They cover
// sizes around a page, odd dimensions, all dtypes, GQA ratios, unaligned pointers, NaN and refused
// shapes. cpu/reference_test.cc checks the reference itself.
//
// A test program compiles the conformance_*.cc files and instantiates the suite:
//
//   INSTANTIATE_TEST_SUITE_P(Cpu, OpConformance, ::testing::Values(MakeMyDevice), DeviceName);
//
// The codecs may be missing, as hosts encode units: their tests are then skipped.
#ifndef QUIRE_KERNELS_TESTING_OP_CONFORMANCE_H_
#define QUIRE_KERNELS_TESTING_OP_CONFORMANCE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/api/table.h"

namespace quire::kernels::testing {

/// A table and the memory that its ops work on.
class TestDevice {
 public:
  virtual ~TestDevice() = default;
  virtual const KernelTable& table() const = 0;
  /// Why no test can run here ("no CUDA device: ..."); empty if they can.
  virtual std::string unavailable() const { return ""; }
  /// False if slots, positions and ids cannot be checked on the host.
  virtual bool checks_lists() const { return true; }
  virtual void* stream() const { return nullptr; }
  virtual void* Allocate(size_t bytes) = 0;
  virtual void Free(void* memory) = 0;
  virtual void CopyIn(void* device, const void* host, size_t bytes) = 0;
  /// Waits for the stream, then copies.
  virtual void CopyOut(void* host, const void* device, size_t bytes) = 0;
};

using MakeDevice = std::function<std::unique_ptr<TestDevice>()>;

/// A host array with a copy on the device, `shift` elements behind an aligned address.
template <typename T>
class Tensor {
 public:
  Tensor(TestDevice& device, std::vector<T> host, size_t shift = 0)
      : device_(&device), host_(std::move(host)), shift_(shift) {
    base_ = device_->Allocate((host_.size() + shift_) * sizeof(T) + 1);
    device_->CopyIn(data(), host_.data(), host_.size() * sizeof(T));
  }
  ~Tensor() { device_->Free(base_); }
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;

  T* data() { return static_cast<T*>(base_) + shift_; }
  T* host() { return host_.data(); }
  const std::vector<T>& host_array() const { return host_; }
  size_t size() const { return host_.size(); }
  /// Reads the array back from the device.
  std::vector<T> Fetch() {
    std::vector<T> now(host_.size());
    device_->CopyOut(now.data(), data(), now.size() * sizeof(T));
    return now;
  }

 private:
  TestDevice* device_;
  std::vector<T> host_;
  size_t shift_;
  void* base_;
};

/// A device and a seeded source of inputs.
class Workbench {
 public:
  explicit Workbench(std::unique_ptr<TestDevice> device) : device_(std::move(device)) {}

  TestDevice& device() { return *device_; }
  const KernelTable& table() { return device_->table(); }

  int64_t Random(int64_t low, int64_t high);  ///< Both bounds included.
  std::vector<float> Floats(int64_t n, float scale = 1.0f);
  std::vector<int32_t> Ints(int64_t n, int32_t low, int32_t high);
  /// `n` different numbers of 0..limit-1 in random order.
  std::vector<int32_t> Slots(int64_t n, int64_t limit);
  /// The offset of an array from an aligned address: 0 or `bytes`, at random.
  size_t Shift(size_t bytes) { return Random(0, 1) == 0 ? 0 : bytes; }
  /// Any bit pattern, NaN included.
  std::vector<uint8_t> Bytes(int64_t n);
  /// Random numbers as [n] dtype.
  std::vector<uint8_t> Elements(int64_t n, DType dtype);

 private:
  std::unique_ptr<TestDevice> device_;
  std::mt19937 random_{20240607};
};

class OpConformance : public ::testing::TestWithParam<MakeDevice> {
 protected:
  void SetUp() override {
    if (const std::string reason = bench_.device().unavailable(); !reason.empty()) {
      GTEST_SKIP() << reason;
    }
  }
  const KernelTable& table() { return bench_.table(); }

  Workbench bench_{GetParam()()};
};

inline constexpr DType kAllDTypes[] = {DType::kF32, DType::kF16, DType::kBF16};

/// Converts [n] dtype to f32.
std::vector<float> ToFloats(const std::vector<uint8_t>& bytes, DType dtype);
std::vector<uint8_t> FromFloats(const std::vector<float>& values, DType dtype);

/// Compares numbers within `tolerance` of |want|; NaN matches NaN only.
void ExpectClose(const std::vector<float>& got, const std::vector<float>& want,
                 const Tolerance& tolerance);
/// Compares within distances, each for an element or a row of them.
void ExpectClose(const std::vector<float>& got, const std::vector<float>& want,
                 const std::vector<double>& distances);

/// Sizes of an attention-like problem.
struct Heads {
  int64_t n_q;
  int64_t n_kv;
  int64_t d;
};
/// GQA ratios 1, 4, 6, 7, 8, the head dimensions of models, and odd or tiny ones.
inline constexpr Heads kHeads[] = {{1, 1, 1},   {2, 2, 8},   {8, 2, 64}, {7, 1, 33},
                                   {16, 2, 80}, {4, 1, 128}, {2, 2, 96}, {6, 1, 256}};

/// The head dimensions of models with MHA, GQA and MQA.
std::vector<Heads> ModelHeads();
std::string Text(const Heads& heads);

/// The table's name, for the instantiation.
std::string DeviceName(const ::testing::TestParamInfo<MakeDevice>& info);

/// Skips the test when the table lacks the op.
#define QUIRE_REQUIRE_OP(op)                        \
  if (table().op == nullptr) {                      \
    GTEST_SKIP() << table().name << " has no " #op; \
  }                                                 \
  static_assert(true, "takes a semicolon")

}  // namespace quire::kernels::testing

#endif  // QUIRE_KERNELS_TESTING_OP_CONFORMANCE_H_
