// SPDX-License-Identifier: Apache-2.0
#include "python/native/landing.h"

#include <nanobind/ndarray.h>

#include "python/native/errors.h"

namespace quire::python {

namespace nb = nanobind;

Landing::Landing(std::shared_ptr<SessionCore> core, uint32_t num_sequences)
    : core_(std::move(core)), landing_(core_->Do([&](ClientSession& session) {
        return Take(session.MakeLanding(num_sequences));
      })) {}

Landing::~Landing() {
  core_->Do([&](ClientSession&) { landing_.reset(); });
}

bool Landing::direct() const {
  return core_->Do([&](ClientSession&) { return landing_->direct(); });
}

SessionLanding* Landing::Of(const SessionCore& core) const {
  if (&core != core_.get()) {
    throw StatusError(InvalidArgument("landing: it is of another session"));
  }
  return landing_.get();
}

void BindLandings(nb::module_& module) {
  nb::class_<Landing>(module, "Landing",
                      "Memory that a server writes the units of a session's recalls into, where a\n"
                      "lane of RDMA does so. Elsewhere units come as they do without it.")
      .def_prop_ro("direct", &Landing::direct,
                   "True when the server writes here; False over a transport without RDMA.")
      .def_prop_ro(
          "memory",
          [](nb::handle self) {
            const std::span<std::byte> bytes = nb::cast<const Landing&>(self).bytes();
            using View = nb::ndarray<nb::memview, const uint8_t, nb::ndim<1>>;
            return View(bytes.data(), {bytes.size()}, self);
          },
          nb::sig("def memory(self) -> memoryview"),
          "Its bytes: [sequences][managed layers][n_kv][slots_per_head][*unit].");
}

}  // namespace quire::python
