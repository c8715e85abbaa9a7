// SPDX-License-Identifier: Apache-2.0
#include "kernels/simt/fake_cublas.h"

#include <algorithm>

namespace quire::simt {
namespace {

enum { kSuccess = 0, kNotInitialized = 1, kAllocFailed = 3 };

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

extern "C" {

int cublasCreate_v2(FakeCublasHandle** handle) {
  if (Fails()) return kAllocFailed;
  TheFakeCublas().handles.push_back(new FakeCublasHandle);
  *handle = TheFakeCublas().handles.back();
  return kSuccess;
}

int cublasDestroy_v2(FakeCublasHandle* handle) {
  std::vector<FakeCublasHandle*>& handles = TheFakeCublas().handles;
  const auto found = std::find(handles.begin(), handles.end(), handle);
  if (found == handles.end()) return kNotInitialized;
  handles.erase(found);
  delete handle;
  return kSuccess;
}

int cublasSetStream_v2(FakeCublasHandle* handle, void* stream) {
  if (Fails()) return kNotInitialized;
  *handle = {.stream = stream, .products = handle->products};
  return kSuccess;
}

int cublasSetWorkspace_v2(FakeCublasHandle* handle, void* workspace, size_t bytes) {
  if (Fails()) return kNotInitialized;
  handle->workspace = workspace;
  handle->workspace_bytes = bytes;
  return kSuccess;
}

int cublasSgemm_v2(FakeCublasHandle* handle, int, int, int, int, int, const float*, const float*,
                   int, const float*, int, const float*, float*, int) {
  if (Fails()) return kAllocFailed;
  ++handle->products;
  return kSuccess;
}

}  // extern "C"
