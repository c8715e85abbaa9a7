// SPDX-License-Identifier: Apache-2.0
//
// The source of the CUDA kernels, and of the library that programs load, in the op conformance
// suite on the CPU (simt.h).
#include "kernels/cuda/library.h"
#include "kernels/testing/op_conformance.h"

namespace quire::kernels::testing {
namespace {

class SimtTestDevice : public TestDevice {
 public:
  SimtTestDevice() {
    CudaStreams streams;
    CudaFacts facts;
    EXPECT_EQ(library_.open(&streams, &facts), nullptr);
    stream_ = streams.compute;
  }
  const KernelTable& table() const override { return *library_.kernels; }
  bool checks_lists() const override { return false; }
  void* stream() const override { return stream_; }
  void* Allocate(size_t bytes) override {
    void* memory = nullptr;
    EXPECT_EQ(library_.allocate(stream_, bytes, &memory), nullptr);
    return memory;
  }
  void Free(void* memory) override { EXPECT_EQ(library_.release(stream_, memory), nullptr); }
  void CopyIn(void* device, const void* host, size_t bytes) override {
    if (bytes == 0) return;
    EXPECT_EQ(library_.copy(stream_, CopyDirection::kToDevice, device, host, bytes), nullptr);
  }
  void CopyOut(void* host, const void* device, size_t bytes) override {
    if (bytes == 0) return;
    EXPECT_EQ(library_.copy(stream_, CopyDirection::kToHost, host, device, bytes), nullptr);
  }

 private:
  const CudaLibrary& library_ = *quire_cuda_library();
  void* stream_ = nullptr;
};

std::unique_ptr<TestDevice> MakeSimt() { return std::make_unique<SimtTestDevice>(); }

INSTANTIATE_TEST_SUITE_P(Simt, OpConformance, ::testing::Values(MakeSimt), DeviceName);

}  // namespace
}  // namespace quire::kernels::testing
