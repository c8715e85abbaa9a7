// SPDX-License-Identifier: Apache-2.0
//
// quire object: opaque bytes under keys.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "apps/kit/output/json_output.h"
#include "apps/kit/output/table.h"
#include "apps/kit/read_file.h"
#include "apps/quire/commands.h"
#include "quire/objects.h"

namespace quire::cli {
namespace {

struct ObjectArgs {
  std::string key;
  std::string file;
  std::vector<std::string> keys;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  bool persisted = false;
};

std::string PutText(const PutObjectReply& put) {
  if (!put.existed) return "stored ";
  return put.differs ? "not stored: other bytes stand under " : "was stored already: ";
}

Status RunObjectPut(const ObjectArgs& args, const CommandContext& context) {
  QUIRE_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(args.file));
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, context.Connect());
  std::vector<ObjectToPut> objects = {{.key = args.key, .bytes = {}}};
  objects[0].bytes.Append(Slice{std::as_bytes(std::span(text)), nullptr});
  const PutOptions options{.durability = args.persisted ? PutDurability::kPersisted
                                                        : PutDurability::kServerDefault};
  QUIRE_ASSIGN_OR_RETURN(const auto puts, client->PutObjects(objects, options));
  const PutObjectReply& put = puts.front();
  if (context.options.json) {
    PrintJsonLine(context.out, {{"key", args.key},
                                {"bytes", text.size()},
                                {"existed", put.existed},
                                {"differs", put.differs}});
  } else {
    context.out << PutText(put) << args.key << '\n';
  }
  return OkStatus();
}

Status WriteTo(std::ostream& out, const Payload& payload) {
  for (const Slice& slice : payload.slices()) {
    out.write(reinterpret_cast<const char*>(slice.bytes.data()),
              static_cast<std::streamsize>(slice.bytes.size()));
  }
  out.flush();
  if (!out.good()) return Unavailable("the bytes could not be written");
  if (payload.IsValid()) return OkStatus();
  return Unavailable("writing took longer than the server lends its memory: get it again");
}

Status RunObjectGet(const ObjectArgs& args, const CommandContext& context) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, context.Connect());
  const std::vector<ObjectRange> range = {
      {.key = args.key, .offset = args.offset, .bytes = args.bytes}};
  QUIRE_ASSIGN_OR_RETURN(const auto objects, client->GetObjects(range));
  const std::optional<ObjectBytes>& object = objects.front();
  if (!object) return NotFound("no object is stored under ", args.key);
  if (args.file.empty()) return WriteTo(context.out, object->payload);
  std::ofstream file(args.file, std::ios::binary | std::ios::trunc);
  QUIRE_RETURN_IF_ERROR(Annotate(WriteTo(file, object->payload), args.file));
  if (context.options.json) {
    PrintJsonLine(context.out, {{"key", args.key},
                                {"bytes", object->payload.size_bytes()},
                                {"object_bytes", object->object_bytes}});
  }
  return OkStatus();
}

Status RunObjectStat(const ObjectArgs& args, const CommandContext& context) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, context.Connect());
  QUIRE_ASSIGN_OR_RETURN(const auto sizes, client->StatObjects(args.keys));
  Json json = {{"objects", Json::array()}};
  Table table({{"KEY"}, {"BYTES", Table::kRight}});
  for (size_t i = 0; i < sizes.size(); ++i) {
    json["objects"].push_back({{"key", args.keys[i]}, {"bytes", sizes[i].value_or(0)}});
    table.AddRow({args.keys[i], sizes[i] ? FormatCount(*sizes[i]) : "not stored"});
  }
  if (context.options.json) {
    PrintJsonLine(context.out, json);
  } else {
    table.Print(context.out);
  }
  return OkStatus();
}

Status RunObjectRm(const ObjectArgs& args, const CommandContext& context) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, context.Connect());
  QUIRE_ASSIGN_OR_RETURN(const auto deleted, client->DeleteObjects(args.keys));
  const auto count = std::count(deleted.begin(), deleted.end(), true);
  if (context.options.json) {
    PrintJsonLine(context.out, {{"deleted", count}});
  } else {
    context.out << "deleted " << count << " of " << deleted.size() << " objects\n";
  }
  return OkStatus();
}

void AddObjectPut(Commands& commands, CLI::App& group, const std::shared_ptr<ObjectArgs>& args) {
  CLI::App& put = commands.Add(
      {.name = "put",
       .summary = "Store a file under a key; the first bytes under a key stand",
       .examples = "  quire object put kv/7f3a block.bin\n"
                   "  quire object put kv/7f3a block.bin --persisted   synced before it returns"},
      args, &RunObjectPut, &group);
  put.add_option("KEY", args->key, "1 to 1024 bytes")->required();
  put.add_option("FILE", args->file, "The bytes, at least one")->required();
  put.add_flag("--persisted", args->persisted, "Wait until it survives a loss of power");
}

void AddObjectGet(Commands& commands, CLI::App& group, const std::shared_ptr<ObjectArgs>& args) {
  CLI::App& get = commands.Add(
      {.name = "get",
       .summary = "Write an object, or a range of it, to a file or to standard output",
       .examples = "  quire object get kv/7f3a > block.bin\n"
                   "  quire object get kv/7f3a --offset 4096 --bytes 100 --output part.bin"},
      args, &RunObjectGet, &group);
  get.add_option("KEY", args->key, "The object")->required();
  get.add_option("--output", args->file, "File to write (standard output when not given)");
  get.add_option("--offset", args->offset, "First byte")->capture_default_str();
  get.add_option("--bytes", args->bytes, "Bytes from there (to the end when not given)");
}

}  // namespace

void AddObjectCommand(Commands& commands) {
  const auto args = std::make_shared<ObjectArgs>();
  CLI::App& group =
      commands.AddGroup({.name = "object",
                         .summary = "Opaque bytes under keys, kept as a cache beside the documents",
                         .examples = "  quire object put kv/7f3a block.bin\n"
                                     "  quire object get kv/7f3a > block.bin\n"
                                     "  quire object rm kv/7f3a"});
  AddObjectPut(commands, group, args);
  AddObjectGet(commands, group, args);
  commands
      .Add({.name = "stat",
            .summary = "Which objects are stored, and how large they are",
            .examples = "  quire object stat kv/7f3a kv/7f3b\n  quire object stat kv/7f3a --json"},
           args, &RunObjectStat, &group)
      .add_option("KEY", args->keys, "The objects")
      ->required();
  commands
      .Add({.name = "rm",
            .summary = "Remove objects",
            .examples = "  quire object rm kv/7f3a kv/7f3b\n  quire object rm kv/7f3a --json"},
           args, &RunObjectRm, &group)
      .add_option("KEY", args->keys, "The objects")
      ->required();
}

}  // namespace quire::cli
