// SPDX-License-Identifier: Apache-2.0
//
// The module `quire._native`: the client library for Python. It is a thin adapter. Whatever needs
// no C++ is in python/quire.
#include <nanobind/nanobind.h>

#include "python/native/bind.h"
#include "python/native/engine_blocks.h"
#include "python/native/errors.h"
#include "python/native/host_pieces.h"
#include "python/native/objects.h"
#include "python/native/units.h"
#include "quire/version.h"

NB_MODULE(_native, module) {
  namespace python = quire::python;
  module.doc() = "The native part of Quire's Python package; import quire instead.";
  module.attr("__version__") = QUIRE_VERSION;
  python::TranslateErrors();
  python::BindSpec(module);
  python::BindUnits(module);
  python::BindHostPieces(module);
  python::BindObjects(module);
  python::BindDocuments(module);
  python::BindHints(module);
  python::BindSegmentEvents(module);
  python::BindContexts(module);
  python::BindSessions(module);
  python::BindEngineBlocks(module);
  python::BindConnection(module);
}
