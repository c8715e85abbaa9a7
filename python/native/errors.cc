// SPDX-License-Identifier: Apache-2.0
#include "python/native/errors.h"

#include <nanobind/stl/string.h>

#include <string>

namespace quire::python {

namespace nb = nanobind;

void TranslateErrors() {
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const StatusError& error) {
      const nb::object made = nb::module_::import_("quire.errors")
                                  .attr("error_of")(static_cast<int>(error.status().code()),
                                                    std::string(error.status().message()));
      PyErr_SetObject(made.type().ptr(), made.ptr());
    }
  });
}

}  // namespace quire::python
