// SPDX-License-Identifier: Apache-2.0
//
// Hints and conversations for Python.
#include "quire/hints.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <new>
#include <string>
#include <utility>

#include "python/native/bind.h"
#include "python/native/errors.h"
#include "python/native/names.h"
#include "quire/client.h"

namespace quire::python {

namespace nb = nanobind;

void BindHints(nb::module_& module) {
  nb::class_<Hints>(
      module, "Hints",
      "What a caller knows of the future of the pages that it puts or reads. Hints decide the\n"
      "order in which pages leave a tier; no call fails for want of what they ask.")
      .def(
          "__init__",
          [](Hints* self, std::string conversation, const std::string& priority,
             uint64_t keep_seconds) {
            new (self) Hints{.conversation = std::move(conversation),
                             .priority = ValueOf(kKeepPrioritiesByName, priority, "priority"),
                             .keep_seconds = keep_seconds};
          },
          nb::kw_only(), nb::arg("conversation") = "", nb::arg("priority") = "normal",
          nb::arg("keep_seconds") = 0,
          nb::sig("def __init__(self, *, conversation: str = '', priority: str = 'normal', "
                  "keep_seconds: int = 0) -> None"),
          "`conversation`: the agent or user whose turns use the pages, which engines call a\n"
          "session; its last hints hold for all its pages. `priority`: \"low\" pages leave early,\n"
          "\"high\" ones late. `keep_seconds`: they leave after all others for so long from now "
          "on.")
      .def_ro("conversation", &Hints::conversation)
      .def_prop_ro(
          "priority",
          [](const Hints& hints) { return NameOf(kKeepPrioritiesByName, hints.priority); },
          nb::sig("def priority(self) -> str"), "\"low\", \"normal\" or \"high\".")
      .def_ro("keep_seconds", &Hints::keep_seconds);
  nb::class_<PrefetchProgress>(module, "Prefetched", "What a prefetch of a conversation brought.")
      .def_ro("num_segments", &PrefetchProgress::num_segments, "Segments that it used last.")
      .def_ro("segments_in_dram", &PrefetchProgress::segments_in_dram, "Those in DRAM now.")
      .def_ro("segments_not_fitting", &PrefetchProgress::segments_not_fitting,
              "Those that found no room.")
      .def_ro("nbytes", &PrefetchProgress::bytes_done, "Bytes of payload.");
}

void AddConversationCalls(ConnectionClass& connection) {
  connection
      .def(
          "prefetch_conversation",
          [](const Connection& self, const std::string& conversation) {
            const auto client = self.client();
            return WithoutGil([&] { return Take(client->PrefetchConversation(conversation)); });
          },
          nb::arg("conversation"),
          nb::sig("def prefetch_conversation(self, conversation: str) -> Prefetched"),
          "Brings what a conversation used last from SSD to the server's DRAM.")
      .def(
          "release_conversation",
          [](const Connection& self, const std::string& conversation) {
            const auto client = self.client();
            return WithoutGil([&] { return Take(client->ReleaseConversation(conversation)); });
          },
          nb::arg("conversation"),
          nb::sig("def release_conversation(self, conversation: str) -> int"),
          "Ends a conversation: its pages that no other one uses leave first. Returns the number\n"
          "of such segments.");
}

}  // namespace quire::python
