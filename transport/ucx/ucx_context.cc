// SPDX-License-Identifier: Apache-2.0
#include "transport/ucx/ucx_context.h"

#include <signal.h>
#include <ucs/debug/debug.h>

#include <cstdlib>

#include "transport/ucx/ucx_settings.h"
#include "transport/ucx/ucx_status.h"

namespace quire {
namespace {

/// Restores the program's handlers of crash signals, which UCX replaces when it is loaded.
void GiveSignalsBack() {
  static const bool done = [] {
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) ucs_debug_disable_signal(signal);
    return true;
  }();
  (void)done;
}

Status Apply(const UcxSettings& settings, ucp_config_t* config) {
  for (const auto& [name, value] : settings.values) {
    if (ucp_config_modify(config, name.c_str(), value.c_str()) != UCS_OK) {
      return InvalidArgument("UCX does not take ", name, "=", value);
    }
  }
  return OkStatus();
}

}  // namespace

StatusOr<std::shared_ptr<UcxContext>> UcxContext::Create(const UcxOptions& options,
                                                         const SocketAddress& address) {
  GiveSignalsBack();
  ucp_config_t* config = nullptr;
  QUIRE_RETURN_IF_ERROR(
      UcxToStatus(ucp_config_read(nullptr, nullptr, &config), "read UCX's configuration"));
  ucp_context_h handle = nullptr;
  const UcxSettings settings = ChooseUcxSettings(
      options, address.IsLoopback(),
      [](const std::string& variable) { return std::getenv(variable.c_str()) != nullptr; });
  Status status = Apply(settings, config);
  if (status.ok()) {
    ucp_params_t params = {};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    // Remote memory access lets a peer write into this process, so it is enabled only on request.
    params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP |
                      (options.direct_landings ? uint64_t{UCP_FEATURE_RMA} : uint64_t{0});
    status = UcxToStatus(ucp_init(&params, config, &handle),
                         "start UCX (are there such transports and devices?)");
  }
  ucp_config_release(config);
  QUIRE_RETURN_IF_ERROR(status);
  return std::shared_ptr<UcxContext>(
      new UcxContext(handle, settings.gather_bytes, address.IsLoopback()));
}

UcxContext::~UcxContext() { ucp_cleanup(handle_); }

}  // namespace quire
