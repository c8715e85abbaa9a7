// SPDX-License-Identifier: Apache-2.0
//
// Landing: memory that a server writes the units of a session's recalls into, as Python holds it.
//
// Ownership: shares the session; recalls that name it share it. Arrays made of its memory keep it.
// Thread-safety: that of Session.
#ifndef QUIRE_PYTHON_NATIVE_LANDING_H_
#define QUIRE_PYTHON_NATIVE_LANDING_H_

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "python/native/session.h"
#include "quire/session_landing.h"

namespace quire::python {

class Landing {
 public:
  /// Room for sequences below `num_sequences` of the session.
  Landing(std::shared_ptr<SessionCore> core, uint32_t num_sequences);
  /// Ends it, without the GIL.
  ~Landing();
  Landing(const Landing&) = delete;
  Landing& operator=(const Landing&) = delete;

  /// True when the server writes here.
  bool direct() const;
  std::span<std::byte> bytes() const { return landing_->bytes(); }
  /// For RecallOptions. Throws INVALID_ARGUMENT for a recall of another session.
  SessionLanding* Of(const SessionCore& core) const;

 private:
  const std::shared_ptr<SessionCore> core_;
  std::unique_ptr<SessionLanding> landing_;
};

void BindLandings(nanobind::module_& module);

}  // namespace quire::python

#endif  // QUIRE_PYTHON_NATIVE_LANDING_H_
