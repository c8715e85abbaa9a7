// SPDX-License-Identifier: Apache-2.0
#include "kernels/simt/fake_cublas.h"

#include <algorithm>

#include "kernels/simt/include/cuda_runtime.h"

namespace quire::simt {
namespace {

enum { kSuccess = 0, kNotInitialized = 1, kAllocFailed = 3 };

FakeCublasHandle* From(void* handle) { return static_cast<FakeCublasHandle*>(handle); }

bool Fails() {
  FakeCublas& fake = TheFakeCublas();
  return ++fake.calls == fake.failing_call;
}

}  // namespace

FakeCublas& TheFakeCublas() {
  static FakeCublas* const fake = new FakeCublas;
  return *fake;
}

}  // namespace quire::simt

using namespace quire::simt;

// Functions of the types that cublas.cu calls them by.
extern "C" {

int cublasCreate_v2(void** handle) {
  if (Fails()) return kAllocFailed;
  TheFakeCublas().handles.push_back(new FakeCublasHandle);
  *handle = TheFakeCublas().handles.back();
  return kSuccess;
}

int cublasDestroy_v2(void* handle) {
  std::vector<FakeCublasHandle*>& handles = TheFakeCublas().handles;
  const auto found = std::find(handles.begin(), handles.end(), handle);
  if (found == handles.end()) return kNotInitialized;
  delete *found;
  handles.erase(found);
  return kSuccess;
}

int cublasSetStream_v2(void* handle, cudaStream_t stream) {
  if (Fails()) return kNotInitialized;
  *From(handle) = {.stream = stream, .products = From(handle)->products};
  return kSuccess;
}

int cublasSetWorkspace_v2(void* handle, void* workspace, size_t bytes) {
  if (Fails()) return kNotInitialized;
  From(handle)->workspace = workspace;
  From(handle)->workspace_bytes = bytes;
  return kSuccess;
}

int cublasSgemm_v2(void* handle, int, int, int, int, int, const float*, const float*, int,
                   const float*, int, const float*, float*, int) {
  if (Fails()) return kAllocFailed;
  ++From(handle)->products;
  return kSuccess;
}

}  // extern "C"
