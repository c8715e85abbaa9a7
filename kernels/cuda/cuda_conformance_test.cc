// SPDX-License-Identifier: Apache-2.0
//
// The CUDA table, and that of the library that programs load, in the op conformance suite. Skipped,
// with the reason, without a device.
#include <cuda_runtime.h>

#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/library.h"
#include "kernels/testing/op_conformance.h"

namespace quire::kernels::testing {
namespace {

class CudaTestDevice : public TestDevice {
 public:
  CudaTestDevice() {
    int count = 0;
    status_ = cudaGetDeviceCount(&count);
    if (status_ == cudaSuccess && count == 0) status_ = cudaErrorNoDevice;
    if (status_ == cudaSuccess) status_ = cudaStreamCreate(&stream_);
  }
  ~CudaTestDevice() override {
    if (stream_ != nullptr) {
      EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
    }
  }
  const KernelTable& table() const override { return CudaKernels(); }
  std::string unavailable() const override {
    if (status_ == cudaSuccess) return "";
    return std::string("no CUDA device: ") + cudaGetErrorString(status_);
  }
  bool checks_lists() const override { return false; }
  void* stream() const override { return stream_; }
  void* Allocate(size_t bytes) override {
    void* memory = nullptr;
    EXPECT_EQ(cudaMalloc(&memory, bytes), cudaSuccess);
    return memory;
  }
  void Free(void* memory) override { EXPECT_EQ(cudaFree(memory), cudaSuccess); }
  void CopyIn(void* device, const void* host, size_t bytes) override {
    EXPECT_EQ(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice), cudaSuccess);
  }
  void CopyOut(void* host, const void* device, size_t bytes) override {
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost), cudaSuccess);
  }

 private:
  cudaError_t status_ = cudaSuccess;
  cudaStream_t stream_ = nullptr;
};

/// The same memory with the library's own table and stream.
class CudaLibraryTestDevice : public CudaTestDevice {
 public:
  CudaLibraryTestDevice() {
    CudaStreams streams;
    CudaFacts facts;
    library_.open(&streams, &facts);  // Ignored: the other device has checked availability.
    stream_ = streams.compute;
  }
  const KernelTable& table() const override { return *library_.kernels; }
  void* stream() const override { return stream_; }
  // Copies in the order of the stream, which does not wait for cudaMemcpy.
  void CopyIn(void* device, const void* host, size_t bytes) override {
    EXPECT_EQ(library_.copy(stream_, CopyDirection::kToDevice, device, host, bytes), nullptr);
  }
  void CopyOut(void* host, const void* device, size_t bytes) override {
    EXPECT_EQ(library_.copy(stream_, CopyDirection::kToHost, host, device, bytes), nullptr);
  }

 private:
  const CudaLibrary& library_ = *quire_cuda_library();
  void* stream_ = nullptr;
};

std::unique_ptr<TestDevice> MakeCudaLibrary() { return std::make_unique<CudaLibraryTestDevice>(); }
std::unique_ptr<TestDevice> MakeCuda() { return std::make_unique<CudaTestDevice>(); }

INSTANTIATE_TEST_SUITE_P(Cuda, OpConformance, ::testing::Values(MakeCuda, MakeCudaLibrary),
                         DeviceName);

}  // namespace
}  // namespace quire::kernels::testing
