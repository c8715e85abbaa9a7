// SPDX-License-Identifier: Apache-2.0
//
// Documents and collections for Python.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "python/native/arguments.h"
#include "python/native/bind.h"
#include "python/native/errors.h"
#include "python/native/host_array.h"
#include "python/native/names.h"
#include "quire/client.h"

namespace quire::python {
namespace {

namespace nb = nanobind;

nb::bytes RawBytes(const std::string& raw) { return nb::bytes(raw.data(), raw.size()); }
std::string RawString(const nb::bytes& raw) {
  return std::string(static_cast<const char*>(raw.data()), raw.size());
}

std::string Describe(const DocumentName& name) {
  return name.collection + "/" + name.name +
         (name.version == 0 ? std::string() : "@" + std::to_string(name.version));
}

/// Calls `method` with a document's name, without the GIL.
template <typename Result, typename... Rest>
Result CallFor(const Connection& self, nb::handle document,
               StatusOr<Result> (Client::*method)(const DocumentName&, Rest...), Rest... rest) {
  const auto client = self.client();
  const DocumentName name = DocumentOf(document);
  return WithoutGil([&] { return Take(((*client).*method)(name, rest...)); });
}

Document Register(const Connection& self, nb::handle document, nb::handle chain_tip,
                  const Tags& tags, const std::string& source, const nb::bytes& content_hash,
                  std::optional<uint64_t> ttl_seconds, bool keep_latest,
                  const std::optional<Ingest>& ingest) {
  const auto client = self.client();
  const DocumentName name = DocumentOf(document);
  const SegmentKey tip = KeyOf(chain_tip);
  const RegisterOptions options{.content_hash = RawString(content_hash),
                                .ttl_seconds = ttl_seconds,
                                .source = source,
                                .tags = tags,
                                .keep_latest = keep_latest,
                                .ingest_id = ingest ? ingest->id : 0};
  return WithoutGil([&] { return Take(client->RegisterDocument(name, tip, options)); });
}

WarmProgress Warm(const Connection& self, nb::handle document, nb::object progress) {
  const auto client = self.client();
  const DocumentName name = DocumentOf(document);
  std::optional<nb::python_error> raised;
  const WarmObserver observe = [&](const WarmProgress& now) {
    const nb::gil_scoped_acquire held;
    try {
      const nb::object answer = progress(now);
      return answer.is_none() || nb::cast<bool>(answer);
    } catch (nb::python_error& error) {
      raised.emplace(std::move(error));
      return false;
    }
  };
  StatusOr<WarmProgress> done = WithoutGil(
      [&] { return client->WarmDocument(name, progress.is_none() ? WarmObserver() : observe); });
  if (raised) throw nb::python_error(std::move(*raised));
  return Take(std::move(done));
}

DocumentEvents Events(const Connection& self, uint64_t after, bool from_now,
                      const std::string& collection, uint32_t max_events, double wait) {
  const auto client = self.client();
  const WatchOptions options{.after = after,
                             .from_now = from_now,
                             .collection = collection,
                             .max_events = max_events,
                             .wait = SecondsOf(wait, {})};
  return WithoutGil([&] { return Take(client->WatchDocuments(options)); });
}

Extra PutExtra(const Connection& self, nb::handle document, const std::string& name,
               nb::handle data, uint32_t version) {
  const auto client = self.client();
  const DocumentName target = DocumentOf(document);
  const HostArray array(data, "data", HostArray::Use::kRead);
  return WithoutGil(
      [&] { return Take(client->PutExtra(target, name, version, Lend(array.bytes()))); });
}

nb::bytes GetExtra(const Connection& self, nb::handle document, const std::string& name) {
  const auto client = self.client();
  const DocumentName target = DocumentOf(document);
  const ExtraBytes extra = WithoutGil([&] { return Take(client->GetExtra(target, name)); });
  const Slice all = extra.payload.Flatten();
  return nb::bytes(all.bytes.data(), all.bytes.size());
}

void BindDocument(nb::module_& module) {
  nb::class_<DocumentName>(
      module, "DocumentName",
      "Names a document. Version 0: the latest (get), the next (register), all "
      "(delete).")
      .def(
          "__init__",
          [](DocumentName* self, std::string name, std::string collection, uint64_t version) {
            new (self) DocumentName{
                .collection = std::move(collection), .name = std::move(name), .version = version};
          },
          nb::arg("name"), nb::arg("collection") = "default", nb::arg("version") = 0)
      .def_ro("name", &DocumentName::name)
      .def_ro("collection", &DocumentName::collection)
      .def_ro("version", &DocumentName::version)
      .def("__eq__", [](const DocumentName& a, const DocumentName& b) { return a == b; })
      .def("__hash__",
           [](const DocumentName& name) { return std::hash<std::string>()(Describe(name)); })
      .def("__repr__",
           [](const DocumentName& name) { return "<document " + Describe(name) + ">"; });
  nb::class_<DocumentStatistics>(module, "DocumentStatistics", "Use of a document.")
      .def_ro("questions", &DocumentStatistics::questions)
      .def_ro("hits", &DocumentStatistics::hits)
      .def_ro("tokens_saved", &DocumentStatistics::tokens_saved)
      .def_ro("bytes_served", &DocumentStatistics::bytes_served)
      .def_ro("last_used_unix_micros", &DocumentStatistics::last_used_unix_micros);
  nb::class_<Document>(module, "Document", "A version of a document in the registry.")
      .def_ro("name", &Document::name)
      .def_prop_ro("chain_tip", [](const Document& doc) { return BytesOf(doc.chain_tip); })
      .def_ro("num_tokens", &Document::num_tokens)
      .def_ro("nbytes", &Document::bytes, "Bytes of payload.")
      .def_ro("model", &Document::model)
      .def_ro("created_unix_micros", &Document::created_unix_micros)
      .def_prop_ro("content_hash", [](const Document& doc) { return RawBytes(doc.content_hash); })
      .def_ro("ttl_seconds", &Document::ttl_seconds)
      .def_ro("expires_unix_micros", &Document::expires_unix_micros, "0: never.")
      .def_ro("segments_lost", &Document::segments_lost, "Lost or damaged: put it again.")
      .def_prop_ro(
          "state", [](const Document& doc) { return NameOf(kDocumentStatesByName, doc.state); },
          "\"ready\", \"ingesting\", \"failed\" or \"expired\".")
      .def_ro("failure", &Document::failure, "Why it failed.")
      .def_ro("tags", &Document::tags)
      .def_ro("source", &Document::source)
      .def_ro("is_latest", &Document::is_latest, "Version 0 means this one.")
      .def_ro("pinned", &Document::pinned)
      .def_ro("statistics", &Document::statistics)
      .def("__repr__", [](const Document& doc) { return "<document " + Describe(doc.name) + ">"; });
}

void BindResults(nb::module_& module) {
  nb::class_<Ingest>(module, "Ingest",
                     "A reserved version. It fails soon after this object has gone, unless it was\n"
                     "registered.")
      .def_ro("document", &Ingest::document)
      .def_ro("unchanged", &Ingest::unchanged, "The latest version has this content already.")
      .def_ro("id", &Ingest::id);
  nb::class_<DocumentPage>(module, "DocumentPage", "A page of a list of documents.")
      .def_ro("documents", &DocumentPage::documents)
      .def_ro("next_page_token", &DocumentPage::next_page_token, "Empty at the end.");
  nb::class_<RemovedDocuments>(module, "RemovedDocuments", "How much was removed.")
      .def_ro("documents", &RemovedDocuments::documents, "Versions.")
      .def_ro("segments", &RemovedDocuments::segments);
  nb::class_<WarmProgress>(module, "WarmProgress", "How much of a document is in DRAM.")
      .def_ro("document", &WarmProgress::document)
      .def_ro("segments_done", &WarmProgress::segments_done)
      .def_ro("num_segments", &WarmProgress::num_segments)
      .def_ro("bytes_done", &WarmProgress::bytes_done)
      .def_ro("segments_not_fitting", &WarmProgress::segments_not_fitting)
      .def_ro("segments_in_dram", &WarmProgress::segments_in_dram);
  nb::class_<DocumentEvent>(module, "DocumentEvent", "A change in the registry.")
      .def_ro("position", &DocumentEvent::position, "Place in the tenant's log, from 1 on.")
      .def_ro("time_unix_micros", &DocumentEvent::time_unix_micros)
      .def_prop_ro(
          "kind", [](const DocumentEvent& event) { return std::string(Name(event.kind)); },
          "\"REGISTERED\", \"DELETED\", ...")
      .def_ro("document", &DocumentEvent::document)
      .def_ro("detail", &DocumentEvent::detail);
  nb::class_<DocumentEvents>(module, "DocumentEvents", "A page of the log of events.")
      .def_ro("events", &DocumentEvents::events)
      .def_ro("position", &DocumentEvents::position, "`after` of the next read.")
      .def_ro("oldest", &DocumentEvents::oldest);
  nb::class_<Collection>(module, "Collection", "Settings of a collection.")
      .def_ro("name", &Collection::name)
      .def_ro("codec", &Collection::codec)
      .def_ro("codec_is_default", &Collection::codec_is_default)
      .def_ro("ttl_seconds", &Collection::ttl_seconds);
  nb::class_<Extra>(module, "Extra", "Bytes beside a document.")
      .def_ro("name", &Extra::name)
      .def_ro("version", &Extra::version)
      .def_ro("size", &Extra::size)
      .def_ro("created_unix_micros", &Extra::created_unix_micros);
}

void AddReads(ConnectionClass& connection) {
  connection
      .def(
          "get_document",
          [](const Connection& self, nb::handle document) {
            return CallFor(self, document, &Client::GetDocument, TimePoint::max());
          },
          nb::arg("document"), nb::sig("def get_document(self, document: DocumentRef) -> Document"),
          "The document; its latest version, unless the name says another.")
      .def(
          "list_page",
          [](const Connection& self, const std::string& collection, const std::string& filter,
             const std::string& order, uint32_t page_size, const std::string& page_token) {
            const auto client = self.client();
            const ListOptions options{.collection = collection,
                                      .filter = filter,
                                      .order = ValueOf(kDocumentOrdersByName, order, "order"),
                                      .page_size = page_size,
                                      .page_token = page_token};
            return WithoutGil([&] { return Take(client->ListDocuments(options)); });
          },
          nb::arg("collection") = "", nb::arg("filter") = "", nb::arg("order") = "name",
          nb::arg("page_size") = 100, nb::arg("page_token") = "",
          "One page of the documents that match; list_documents has all of them.")
      .def(
          "events", &Events, nb::arg("after") = 0, nb::kw_only(), nb::arg("from_now") = false,
          nb::arg("collection") = "", nb::arg("max_events") = 100, nb::arg("wait") = 0.0,
          "Events of the registry after a position. Waits `wait` seconds, at most 30, for a first\n"
          "one. OutOfRange when the log has lost the position.")
      .def("get_extra", &GetExtra, nb::arg("document"), nb::arg("name"),
           nb::sig("def get_extra(self, document: DocumentRef, name: str) -> bytes"),
           "Bytes beside a document, verified.")
      .def(
          "list_extras",
          [](const Connection& self, nb::handle document) {
            return CallFor(self, document, &Client::ListExtras);
          },
          nb::arg("document"),
          nb::sig("def list_extras(self, document: DocumentRef) -> list[Extra]"),
          "What lies beside a document.");
}

void AddRegistrations(ConnectionClass& connection) {
  connection
      .def("register_document", &Register, nb::arg("document"), nb::arg("chain_tip"), nb::kw_only(),
           nb::arg("tags") = Tags(), nb::arg("source") = "",
           nb::arg("content_hash") = nb::bytes("", 0), nb::arg("ttl_seconds") = nb::none(),
           nb::arg("keep_latest") = false, nb::arg("ingest") = nb::none(),
           nb::sig("def register_document(self, document: DocumentRef, chain_tip: bytes, *, tags: "
                   "collections.abc.Mapping[str, str | int | float | bool] = {}, source: str = '', "
                   "content_hash: bytes = b'', ttl_seconds: int | None = None, keep_latest: bool = "
                   "False, ingest: Ingest | None = None) -> Document"),
           "Names a sealed context. `ingest` is what begin_ingest gave; it has the other settings.")
      .def(
          "begin_ingest",
          [](const Connection& self, nb::handle document, const nb::bytes& content_hash,
             const std::string& source, const Tags& tags, std::optional<uint64_t> ttl_seconds) {
            const auto client = self.client();
            const DocumentName name = DocumentOf(document);
            const IngestOptions options{.content_hash = RawString(content_hash),
                                        .source = source,
                                        .tags = tags,
                                        .ttl_seconds = ttl_seconds};
            return WithoutGil([&] { return Take(client->BeginIngest(name, options)); });
          },
          nb::arg("document"), nb::kw_only(), nb::arg("content_hash") = nb::bytes("", 0),
          nb::arg("source") = "", nb::arg("tags") = Tags(), nb::arg("ttl_seconds") = nb::none(),
          nb::sig(
              "def begin_ingest(self, document: DocumentRef, *, content_hash: bytes = b'', "
              "source: str = '', tags: collections.abc.Mapping[str, str | int | float | bool] = "
              "{}, ttl_seconds: int | None = None) -> Ingest"),
          "Reserves the next version of a document.")
      .def(
          "fail_ingest",
          [](const Connection& self, const Ingest& ingest, const std::string& reason) {
            const auto client = self.client();
            return WithoutGil([&] { return Take(client->FailIngest(ingest.id, reason)); });
          },
          nb::arg("ingest"), nb::arg("reason"), "Ends an ingest as failed.")
      .def("put_extra", &PutExtra, nb::arg("document"), nb::arg("name"), nb::arg("data"),
           nb::arg("version") = 1,
           nb::sig("def put_extra(self, document: DocumentRef, name: str, data: object, version: "
                   "int = 1) -> Extra"),
           "Stores bytes beside a document, at most 4 MiB.");
}

void AddChanges(ConnectionClass& connection) {
  connection
      .def(
          "update_document",
          [](const Connection& self, nb::handle document, const Tags& set_tags,
             const std::vector<std::string>& remove_tags, std::optional<uint64_t> ttl_seconds) {
            const DocumentChange change{
                .set_tags = set_tags, .remove_tags = remove_tags, .ttl_seconds = ttl_seconds};
            return CallFor<Document, const DocumentChange&>(self, document, &Client::UpdateDocument,
                                                            change);
          },
          nb::arg("document"), nb::kw_only(), nb::arg("set_tags") = Tags(),
          nb::arg("remove_tags") = std::vector<std::string>(), nb::arg("ttl_seconds") = nb::none(),
          nb::sig(
              "def update_document(self, document: DocumentRef, *, set_tags: "
              "collections.abc.Mapping[str, str | int | float | bool] = {}, remove_tags: "
              "collections.abc.Sequence[str] = (), ttl_seconds: int | None = None) -> Document"),
          "Changes tags and time to live; `ttl_seconds` 0: the collection's.")
      .def(
          "delete_document",
          [](const Connection& self, nb::handle document, bool keep_segments) {
            return CallFor(self, document, &Client::DeleteDocument, keep_segments);
          },
          nb::arg("document"), nb::arg("keep_segments") = false,
          nb::sig(
              "def delete_document(self, document: DocumentRef, keep_segments: bool = False) -> "
              "RemovedDocuments"),
          "Deletes a version, or all where the name has none.")
      .def(
          "invalidate_document",
          [](const Connection& self, nb::handle document) {
            return CallFor(self, document, &Client::InvalidateDocument);
          },
          nb::arg("document"),
          nb::sig("def invalidate_document(self, document: DocumentRef) -> RemovedDocuments"),
          "Removes a document because its source has changed.")
      .def(
          "invalidate_source",
          [](const Connection& self, const std::string& source) {
            const auto client = self.client();
            return WithoutGil([&] { return Take(client->InvalidateSource(source)); });
          },
          nb::arg("source"), "Removes all documents of a source.")
      .def(
          "set_latest",
          [](const Connection& self, nb::handle document) {
            return CallFor(self, document, &Client::SetLatest);
          },
          nb::arg("document"), nb::sig("def set_latest(self, document: DocumentRef) -> Document"),
          "Makes a version the one that version 0 means.");
}

void AddResidence(ConnectionClass& connection) {
  connection
      .def(
          "pin_document",
          [](const Connection& self, nb::handle document) {
            return CallFor(self, document, &Client::PinDocument).document;
          },
          nb::arg("document"), nb::sig("def pin_document(self, document: DocumentRef) -> Document"),
          "Keeps a document in the server's DRAM, also over restarts.")
      .def(
          "unpin_document",
          [](const Connection& self, nb::handle document) {
            return CallFor(self, document, &Client::UnpinDocument).document;
          },
          nb::arg("document"),
          nb::sig("def unpin_document(self, document: DocumentRef) -> Document"),
          "Takes the pin back, if there is one.")
      .def(
          "page_uses",
          [](const Connection& self, nb::handle document) {
            return CallFor(self, document, &Client::GetPageUses).uses;
          },
          nb::arg("document"), nb::sig("def page_uses(self, document: DocumentRef) -> list[int]"),
          "For each page, the units (a layer and KV head) that recalls have placed.")
      .def("warm_document", &Warm, nb::arg("document"), nb::arg("progress") = nb::none(),
           nb::sig("def warm_document(self, document: DocumentRef, progress: "
                   "collections.abc.Callable[[WarmProgress], bool | None] | None = None) -> "
                   "WarmProgress"),
           "Brings a document to DRAM. `progress` is called after each slice; False ends it with\n"
           "Cancelled.");
}

void AddCollections(ConnectionClass& connection) {
  connection
      .def(
          "set_collection",
          [](const Connection& self, const std::string& name, std::optional<std::string> codec,
             std::optional<uint64_t> ttl_seconds) {
            const auto client = self.client();
            const CollectionChange change{.codec = std::move(codec), .ttl_seconds = ttl_seconds};
            return WithoutGil([&] { return Take(client->SetCollection(name, change)); });
          },
          nb::arg("name"), nb::kw_only(), nb::arg("codec") = nb::none(),
          nb::arg("ttl_seconds") = nb::none(),
          "Changes settings of a collection; those that are None stay. `codec` \"\": the "
          "server's;\n"
          "`ttl_seconds` 0: none.")
      .def(
          "get_collection",
          [](const Connection& self, const std::string& name) {
            const auto client = self.client();
            return WithoutGil([&] { return Take(client->GetCollection(name)); });
          },
          nb::arg("name"), "Settings of a collection.")
      .def(
          "list_collections",
          [](const Connection& self) {
            const auto client = self.client();
            return WithoutGil([&] { return Take(client->ListCollections()); });
          },
          "Collections that have settings of their own.");
}

}  // namespace

void BindDocuments(nb::module_& module) {
  BindDocument(module);
  BindResults(module);
}

void AddDocumentCalls(ConnectionClass& connection) {
  AddReads(connection);
  AddRegistrations(connection);
  AddChanges(connection);
  AddResidence(connection);
  AddCollections(connection);
}

}  // namespace quire::python
