// SPDX-License-Identifier: Apache-2.0
//
// A small service that answers questions over documents. It reads commands from standard input, a
// line each, and writes an answer for each. A server keeps the documents, and a worker has the
// model. Usage: rag SERVER WORKER [METHOD]
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/kit/read_file.h"
#include "apps/kit/worker/ingest_target.h"
#include "apps/kit/worker/remote_worker.h"
#include "gpuworker/engine/reuse/reuse_run.h"
#include "gpuworker/service/documents_call.h"
#include "quire/client.h"
#include "quire/connect.h"

namespace {

using namespace quire;

constexpr char kCollection[] = "rag";
constexpr uint32_t kAnswerTokens = 32;

class Service {
 public:
  static StatusOr<Service> Connect(const std::string& server, const std::string& worker,
                                   worker::ReuseMethod method) {
    QUIRE_ASSIGN_OR_RETURN(auto transport, ConnectGrpc(server));
    Service service;
    QUIRE_ASSIGN_OR_RETURN(service.client_, Client::Create({.transport = std::move(transport)}));
    QUIRE_ASSIGN_OR_RETURN(service.ingest_, cli::IngestThere({.address = worker, .tenant = {}}));
    service.worker_ = worker;
    service.method_ = method;
    return service;
  }

  /// Stores a text file. A text that is stored already is neither sent nor computed.
  StatusOr<std::string> Add(const std::string& path) {
    QUIRE_ASSIGN_OR_RETURN(const std::string text, cli::ReadDocumentFile(path));
    const std::string name = path.substr(path.rfind('/') + 1);
    QUIRE_ASSIGN_OR_RETURN(
        const auto stored,
        ingest_->Ingest({.name = {kCollection, name, 0}, .text_hash = {}, .source = path}, text,
                        {}));
    return (stored.front().unchanged ? "unchanged " : "added ") + name;
  }

  StatusOr<std::string> Remove(const std::string& name) {
    QUIRE_RETURN_IF_ERROR(client_->DeleteDocument({kCollection, name, 0}).status());
    return "removed " + name;
  }

  StatusOr<std::string> List(const std::string&) {
    QUIRE_ASSIGN_OR_RETURN(const std::vector<DocumentName> names, Names());
    std::string list;
    for (const DocumentName& name : names) list += (list.empty() ? "" : " ") + name.name;
    return list;
  }

  /// Answers over all documents. One that is deleted meanwhile is left out.
  StatusOr<std::string> Ask(const std::string& question) {
    QUIRE_ASSIGN_OR_RETURN(const std::vector<DocumentName> names, Names());
    if (names.empty()) return NotFound("there are no documents; add one");
    v1::GenerateRequest request;
    worker::DocumentsToProto(names, {.method = method_, .skip_missing = true},
                             request.mutable_documents());
    v1::ChatPrompt& chat = *request.mutable_chat();
    chat.add_messages()->set_role("user");
    chat.mutable_messages(0)->set_content(question);
    chat.set_without_template("\nQuestion: " + question);
    request.add_stop_texts("\n");
    request.set_max_new_tokens(kAnswerTokens);
    std::string answer;
    const auto add = [&](std::optional<TokenId>, const std::string& text) { answer += text; };
    QUIRE_RETURN_IF_ERROR(cli::AskWorker(worker_, request, {.on_token = add}).status());
    return answer;
  }

  StatusOr<std::string> Use(const std::string& method) {
    QUIRE_ASSIGN_OR_RETURN(method_, worker::ParseReuseMethod(method));
    return "using " + method;
  }

 private:
  StatusOr<std::vector<DocumentName>> Names() {
    QUIRE_ASSIGN_OR_RETURN(const std::vector<Document> documents,
                           client_->ListDocuments(kCollection));
    std::vector<DocumentName> names;
    for (const Document& document : documents) {
      if (document.is_latest) names.push_back(document.name);
    }
    return names;
  }

  std::unique_ptr<Client> client_;
  std::unique_ptr<cli::IngestTarget> ingest_;
  std::string worker_;
  worker::ReuseMethod method_ = worker::ReuseMethod::kCacheBlend;
};

/// Runs one line: a command, a space, and its argument.
StatusOr<std::string> Run(Service& service, const std::string& line) {
  using Command = StatusOr<std::string> (Service::*)(const std::string&);
  static const std::map<std::string, Command> kCommands = {{"add", &Service::Add},
                                                           {"ask", &Service::Ask},
                                                           {"list", &Service::List},
                                                           {"method", &Service::Use},
                                                           {"remove", &Service::Remove}};
  const size_t space = line.find(' ');
  const auto command = kCommands.find(line.substr(0, space));
  if (command == kCommands.end()) {
    return InvalidArgument("commands are: add FILE, remove NAME, list, method NAME, ask QUESTION");
  }
  const std::string argument = space == std::string::npos ? "" : line.substr(space + 1);
  return std::invoke(command->second, service, argument);
}

Status Serve(int argc, char** argv) {
  if (argc < 3 || argc > 4) return InvalidArgument("usage: rag SERVER WORKER [METHOD]");
  QUIRE_ASSIGN_OR_RETURN(const worker::ReuseMethod method,
                         worker::ParseReuseMethod(argc == 4 ? argv[3] : "cacheblend"));
  QUIRE_ASSIGN_OR_RETURN(Service service, Service::Connect(argv[1], argv[2], method));
  for (std::string line; std::getline(std::cin, line);) {
    const auto answer = Run(service, line);
    std::cout << (answer.ok() ? *answer : "error: " + std::string(Message(answer.status())))
              << std::endl;
  }
  return OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  const Status status = Serve(argc, argv);
  if (!status.ok()) std::cerr << Message(status) << '\n';
  return status.ok() ? 0 : 1;
}
