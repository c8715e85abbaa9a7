// SPDX-License-Identifier: Apache-2.0
#include "python/native/objects.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "python/native/arguments.h"
#include "python/native/errors.h"
#include "python/native/host_pieces.h"
#include "python/native/names.h"
#include "quire/client.h"

namespace quire::python {
namespace {

namespace nb = nanobind;

/// Text, as UTF-8, or bytes.
std::string ObjectKeyOf(nb::handle key) {
  if (nb::isinstance<nb::str>(key)) return nb::cast<std::string>(key);
  if (nb::isinstance<nb::bytes>(key)) {
    const auto bytes = nb::borrow<nb::bytes>(key);
    return {bytes.c_str(), bytes.size()};
  }
  throw StatusError(InvalidArgument("a key of an object is text or bytes"));
}

std::vector<std::string> ObjectKeysOf(const nb::sequence& keys) {
  std::vector<std::string> all;
  for (const nb::handle key : keys) all.push_back(ObjectKeyOf(key));
  return all;
}

/// A key, (key, offset) or (key, offset, nbytes).
ObjectRange RangeOf(nb::handle range) {
  if (!nb::isinstance<nb::tuple>(range)) return {.key = ObjectKeyOf(range)};
  const auto fields = nb::borrow<nb::tuple>(range);
  if (fields.size() < 2 || fields.size() > 3) {
    throw StatusError(InvalidArgument("a range is a key, (key, offset) or (key, offset, nbytes)"));
  }
  const auto number = [&](size_t i) {
    uint64_t value = 0;
    if (nb::try_cast(fields[i], value)) return value;
    throw StatusError(InvalidArgument("offset and nbytes are whole numbers from 0 on"));
  };
  ObjectRange out{.key = ObjectKeyOf(fields[0]), .offset = number(1)};
  if (fields.size() == 3 && (out.bytes = number(2)) == 0) {
    throw StatusError(InvalidArgument("nbytes is 0: ask for 1 byte or more"));
  }
  return out;
}

std::vector<ObjectRange> RangesOf(const nb::sequence& ranges) {
  std::vector<ObjectRange> all;
  for (const nb::handle range : ranges) all.push_back(RangeOf(range));
  return all;
}

std::vector<PutObjectReply> PutObjects(const Connection& self, const nb::sequence& objects,
                                       const std::string& durability, bool strict) {
  const auto client = self.client();
  const PutOptions options{.durability = ValueOf(kDurabilitiesByName, durability, "durability"),
                           .strict = strict};
  std::vector<HostBytes> values;  // Lend their memory during the call.
  std::vector<ObjectToPut> to_put;
  for (const nb::handle object : objects) {
    if (!nb::isinstance<nb::tuple>(object) || nb::len(object) != 2) {
      throw StatusError(InvalidArgument("an object to put is a tuple of a key and its bytes"));
    }
    const auto pair = nb::borrow<nb::tuple>(object);
    std::string key = ObjectKeyOf(pair[0]);
    values.emplace_back(pair[1], "object '" + key + "'", HostArray::Use::kRead);
    to_put.push_back({.key = std::move(key), .bytes = values.back().ToRead()});
  }
  return WithoutGil([&] { return Take(client->PutObjects(to_put, options)); });
}

nb::list GetObjects(const Connection& self, const nb::sequence& wanted) {
  const auto client = self.client();
  const std::vector<ObjectRange> ranges = RangesOf(wanted);
  auto objects = WithoutGil([&] { return Take(client->GetObjects(ranges)); });
  nb::list all;
  for (std::optional<ObjectBytes>& object : objects) {
    if (object) {
      all.append(nb::cast(new Object(*std::move(object)), nb::rv_policy::take_ownership));
    } else {
      all.append(nb::none());
    }
  }
  return all;
}

std::vector<std::optional<uint64_t>> GetObjectsInto(const Connection& self,
                                                    const nb::sequence& wanted,
                                                    const nb::sequence& targets, bool exact) {
  const auto client = self.client();
  const std::vector<ObjectRange> ranges = RangesOf(wanted);
  std::vector<HostBytes> memory;
  for (const nb::handle target : targets) {
    memory.emplace_back(target, "into", HostArray::Use::kWrite);
  }
  if (memory.size() != ranges.size()) {
    throw StatusError(InvalidArgument(memory.size(), " arrays to read ", ranges.size(),
                                      " objects into: give one for each"));
  }
  std::vector<ObjectInto> into;
  for (size_t i = 0; i < ranges.size(); ++i) {
    const ObjectRange& range = ranges[i];
    Destination to = memory[i].ToWrite();
    if (range.bytes > to.size_bytes()) {
      throw StatusError(InvalidArgument("into: an array of ", to.size_bytes(), " bytes for ",
                                        range.bytes, " bytes of '", range.key, "'"));
    }
    if (range.bytes != 0) to = to.First(range.bytes);
    into.push_back({.key = range.key, .offset = range.offset, .to = std::move(to), .exact = exact});
  }
  return WithoutGil([&] { return Take(client->GetObjectsInto(into)); });
}

/// The buffer protocol: the object's bytes, read-only.
int LendObject(PyObject* self, Py_buffer* view, int flags) {
  const Object& object = *nb::inst_ptr<Object>(self);
  std::span<const std::byte> bytes;
  bool valid = false;
  Py_BEGIN_ALLOW_THREADS;
  bytes = object.bytes();
  valid = object.IsValid();
  Py_END_ALLOW_THREADS;
  if (!valid) {
    view->obj = nullptr;
    PyErr_SetString(PyExc_BufferError, "the object was held for too long; get it again");
    return -1;
  }
  return PyBuffer_FillInfo(view, self, const_cast<std::byte*>(bytes.data()),
                           static_cast<Py_ssize_t>(bytes.size()), /*readonly=*/1, flags);
}

PyType_Slot object_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(LendObject)}, {0, nullptr}};

void Renew(const Object& object, double timeout) {
  const Duration limit = SecondsOf(timeout, {});
  WithoutGil([&] {
    for (const auto& lease : object.payload().leases()) Check(lease->Renew(limit));
  });
}

}  // namespace

std::span<const std::byte> Object::bytes() const {
  const Payload& payload = object_.payload;
  if (payload.slices().size() == 1) return payload.slices().front().bytes;
  std::call_once(once_, [&] {
    joined_.resize(payload.size_bytes());
    payload.CopyTo(joined_.data());
  });
  return joined_;
}

void BindObjects(nb::module_& module) {
  nb::class_<PutObjectReply>(module, "PutObjectReply", "An object that was put.")
      .def_ro("existed", &PutObjectReply::existed, "It was stored before, and is unchanged.")
      .def_ro("differs", &PutObjectReply::differs,
              "It was stored with other bytes, which stand: delete it to replace it.");
  nb::class_<Object>(module, "Object", nb::type_slots(object_slots),
                     "An object, or a range of one, read-only.\n\n"
                     "`memoryview(object)`, `numpy.asarray(object)` and `bytes(object)` take its\n"
                     "bytes. Over shared memory they lie in the server's memory when they are one\n"
                     "piece, as up to 4 MiB are, and a view keeps their lease; larger ones are\n"
                     "joined by a copy on first use.")
      .def("__len__", &Object::size_bytes)
      .def_prop_ro("nbytes", &Object::size_bytes, "Bytes that were read.")
      .def_prop_ro("object_nbytes", &Object::object_bytes, "Bytes of the whole object.")
      .def_prop_ro("in_place", &Object::in_place, "True when a view is memory of the server.")
      .def_prop_ro("valid", &Object::IsValid,
                   "True while the bytes are as they came. Ask after a use.")
      .def("renew", &Renew, nb::arg("timeout") = 5.0,
           "Extends the loan. FailedPrecondition when it has ended.");
}

void AddObjectCalls(ConnectionClass& connection) {
  connection
      .def("put_objects", &PutObjects, nb::arg("objects"), nb::kw_only(),
           nb::arg("durability") = "default", nb::arg("strict") = false,
           nb::sig("def put_objects(self, objects: Sequence[tuple[ObjectKey, object]], *, "
                   "durability: str = 'default', strict: bool = False) -> list[PutObjectReply]"),
           "Stores objects: keys, and contiguous arrays of any type (bytes, numpy, torch) or\n"
           "HostPieces. The first bytes under a key stand. Objects are caches, and leave when room "
           "is needed.")
      .def("get_objects", &GetObjects, nb::arg("wanted"),
           nb::sig("def get_objects(self, wanted: Sequence[ObjectKey | tuple[ObjectKey, int] | "
                   "tuple[ObjectKey, int, int]]) -> list[Object | None]"),
           "Reads objects by key, or ranges (key, offset) and (key, offset, nbytes); None for one\n"
           "that is not stored. Bytes are verified.")
      .def("get_objects_into", &GetObjectsInto, nb::arg("wanted"), nb::arg("into"), nb::kw_only(),
           nb::arg("exact") = false,
           nb::sig("def get_objects_into(self, wanted: Sequence[ObjectKey | tuple[ObjectKey, int] "
                   "| tuple[ObjectKey, int, int]], into: Sequence[object], *, exact: bool = False) "
                   "-> list[int | None]"),
           "The same, into contiguous arrays or HostPieces, one for each. Returns the bytes\n"
           "written; fewer than the array has where the object ends, None for one that is not\n"
           "stored. With `exact`, None for an object that does not end where the array does, too.")
      .def(
          "stat_objects",
          [](const Connection& self, const nb::sequence& keys) {
            const auto client = self.client();
            const std::vector<std::string> named = ObjectKeysOf(keys);
            return WithoutGil([&] { return Take(client->StatObjects(named)); });
          },
          nb::arg("keys"),
          nb::sig("def stat_objects(self, keys: Sequence[ObjectKey]) -> list[int | None]"),
          "Bytes of each object; None for one that is not stored.")
      .def(
          "delete_objects",
          [](const Connection& self, const nb::sequence& keys) {
            const auto client = self.client();
            const std::vector<std::string> named = ObjectKeysOf(keys);
            return WithoutGil([&] { return Take(client->DeleteObjects(named)); });
          },
          nb::arg("keys"),
          nb::sig("def delete_objects(self, keys: Sequence[ObjectKey]) -> list[bool]"),
          "Removes objects; True for those that were stored.");
}

}  // namespace quire::python
