// SPDX-License-Identifier: Apache-2.0
#include "transport/ucx/puts/ucx_landing.h"

#include <cstring>
#include <utility>

#include "transport/ucx/ucx_status.h"

namespace quire {
StatusOr<std::shared_ptr<UcxMemory>> UcxMemory::Create(std::shared_ptr<UcxContext> context,
                                                       const ucp_mem_map_params_t& params) {
  ucp_mem_h handle = nullptr;
  QUIRE_RETURN_IF_ERROR(UcxToStatus(ucp_mem_map(context->handle(), &params, &handle),
                                    "register the memory of a landing"));
  ucp_mem_attr_t attributes = {};
  attributes.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS | UCP_MEM_ATTR_FIELD_LENGTH;
  const Status queried =
      UcxToStatus(ucp_mem_query(handle, &attributes), "ask for the memory of a landing");
  if (!queried.ok()) {
    (void)ucp_mem_unmap(context->handle(), handle);
    return queried;
  }
  return std::shared_ptr<UcxMemory>(
      new UcxMemory(std::move(context), handle,
                    {static_cast<std::byte*>(attributes.address), attributes.length}));
}

StatusOr<std::shared_ptr<UcxMemory>> UcxMemory::Map(std::shared_ptr<UcxContext> context,
                                                    std::span<std::byte> memory) {
  ucp_mem_map_params_t params = {};
  params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
  params.address = memory.data();
  params.length = memory.size();
  return Create(std::move(context), params);
}

StatusOr<std::shared_ptr<UcxMemory>> UcxMemory::Allocate(std::shared_ptr<UcxContext> context,
                                                         size_t bytes) {
  ucp_mem_map_params_t params = {};
  params.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS;
  params.length = bytes;
  params.flags = UCP_MEM_MAP_ALLOCATE;
  return Create(std::move(context), params);
}

UcxMemory::~UcxMemory() { (void)ucp_mem_unmap(context_->handle(), handle_); }

StatusOr<std::string> UcxMemory::RemoteKey() const {
  void* packed = nullptr;
  size_t size = 0;
  QUIRE_RETURN_IF_ERROR(UcxToStatus(ucp_rkey_pack(context_->handle(), handle_, &packed, &size),
                                    "make the key of a landing"));
  std::string key(static_cast<const char*>(packed), size);
  ucp_rkey_buffer_release(packed);
  return key;
}

StatusOr<std::string> UcxLocalLanding::Key(uint64_t id, const UcxSecret& secret,
                                           bool written) const {
  UcxLandingKey key;
  key.serial = serial_;
  key.landing = id;
  key.address = reinterpret_cast<uintptr_t>(bytes_.data());
  key.bytes = bytes_.size();
  if (written && registered_ != nullptr) {
    QUIRE_ASSIGN_OR_RETURN(key.remote_key, registered_->RemoteKey());
  }
  if (key.remote_key.size() > UcxLandingKey::kMaxRemoteKeyBytes) {
    return Internal("UCX made a key of ", key.remote_key.size(), " bytes");
  }
  return EncodeUcxLandingKey(key, secret);
}

Status UcxLocalLanding::Place(std::span<const UcxPlace> places,
                              std::span<const std::byte> payload) {
  for (const UcxPlace& place : places) {
    if (place.bytes > bytes().size() || place.offset > bytes().size() - place.bytes) {
      return InvalidArgument("a UCX frame has a place at ", place.offset, " of ", place.bytes,
                             " bytes in a landing of ", bytes().size());
    }
  }
  for (const UcxPlace& place : places) {
    std::memcpy(bytes().data() + place.offset, payload.data(), place.bytes);
    payload = payload.subspan(place.bytes);
  }
  return OkStatus();
}

StatusOr<std::shared_ptr<UcxRemoteLanding>> UcxRemoteLanding::Open(UcxEndpoint& endpoint,
                                                                   const UcxLandingKey& key) {
  ucp_rkey_h handle = nullptr;
  const ucs_status_t status = ucp_ep_rkey_unpack(endpoint.handle(), key.remote_key.data(), &handle);
  if (status != UCS_OK) {
    return InvalidArgument("UCX refuses the key of a landing: ", ucs_status_string(status));
  }
  return std::shared_ptr<UcxRemoteLanding>(new UcxRemoteLanding(key.address, key.bytes, handle));
}

UcxRemoteLanding::~UcxRemoteLanding() {
  if (key_ != nullptr) ucp_rkey_destroy(key_);
}

}  // namespace quire
