// SPDX-License-Identifier: Apache-2.0
//
// The parts of the module `quire._native`. Each adds its classes; module.cc calls them in an order
// in which a class is known before another one names it. They need the GIL.
#ifndef QUIRE_PYTHON_NATIVE_BIND_H_
#define QUIRE_PYTHON_NATIVE_BIND_H_

#include <nanobind/nanobind.h>

#include "python/native/connection.h"

namespace quire::python {

using ConnectionClass = nanobind::class_<Connection>;

void BindSpec(nanobind::module_& module);
void BindDocuments(nanobind::module_& module);
void BindHints(nanobind::module_& module);
void BindSegmentEvents(nanobind::module_& module);
void BindContexts(nanobind::module_& module);
void BindSessions(nanobind::module_& module);

/// Methods of the connection: documents and collections; contexts, segments and look-ups;
/// conversations; events of segments; sessions.
void AddDocumentCalls(ConnectionClass& connection);
void AddStoreCalls(ConnectionClass& connection);
void AddConversationCalls(ConnectionClass& connection);
void AddSegmentEventCalls(ConnectionClass& connection);
void AddSessionCalls(ConnectionClass& connection);

}  // namespace quire::python

#endif  // QUIRE_PYTHON_NATIVE_BIND_H_
