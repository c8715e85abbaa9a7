// SPDX-License-Identifier: Apache-2.0
#include "apps/kit/command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "apps/kit/output/json_output.h"
#include "apps/kit/program_beside.h"
#include "common/base/answered.h"
#include "common/base/retry_hint.h"
#include "quire/cluster_client.h"
#include "quire/connect.h"

namespace quire::cli {
namespace {

constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;
constexpr double kDefaultCallSeconds = 60;
/// A person is waiting, and a server may be restarting.
constexpr Duration kDefaultPatience = std::chrono::seconds(5);

constexpr std::array kOptionsOfCalls = {"--server", "--tenant", "--token-file", "--timeout",
                                        "--max-message-bytes"};

constexpr const char* kDescription =
    "quire: keeps the KV caches of documents as pages and sends a worker only the pages it "
    "needs.\n";

/// The mark of Reported.
constexpr const char* kReported = "quire/reported";

/// Says what a person can do about a server that cannot be reached.
Status Advise(const Status& status, const std::string& server) {
  if (!IsUnavailable(status) || IsAnswered(status)) return status;
  Status advised =
      Unavailable(Message(status), "\nIs quired running? Start it with: quire serve --listen ",
                  server, " --data-dir DIR\nor name another server with --server ADDRESS.");
  if (const auto wait = RetryAfter(status)) return WithRetryAfter(std::move(advised), *wait);
  return advised;
}

class AdvisingCall final : public PendingCall {
 public:
  AdvisingCall(std::unique_ptr<PendingCall> inner, std::string server)
      : inner_(std::move(inner)), server_(std::move(server)) {}

  StatusOr<std::optional<CallMessage>> Next(TimePoint deadline) override {
    auto part = inner_->Next(deadline);
    if (!part.ok()) return Advise(part.status(), server_);
    return part;
  }
  void Cancel() override { inner_->Cancel(); }

 private:
  const std::unique_ptr<PendingCall> inner_;
  const std::string server_;
};

/// Hands calls on, with advice.
class AdvisingTransport final : public Transport {
 public:
  AdvisingTransport(std::shared_ptr<Transport> inner, std::string server)
      : inner_(std::move(inner)), server_(std::move(server)) {}

  TransportCapabilities capabilities() const override { return inner_->capabilities(); }
  StatusOr<std::unique_ptr<PendingCall>> Start(std::string_view method, CallMessage request,
                                               const CallOptions& options) override {
    auto call = inner_->Start(method, std::move(request), options);
    if (!call.ok()) return Advise(call.status(), server_);
    return std::make_unique<AdvisingCall>(std::move(call).value(), server_);
  }
  Status Call(std::string_view method, const CallMessage& request, CallMessage* reply,
              const CallOptions& options) override {
    return Advise(inner_->Call(method, request, reply, options), server_);
  }
  StatusOr<std::unique_ptr<Landing>> AddLanding(std::span<std::byte> memory) override {
    return inner_->AddLanding(memory);
  }
  StatusOr<OwnedMemory> AllocateLandingMemory(uint64_t bytes) override {
    return inner_->AllocateLandingMemory(bytes);
  }

 private:
  const std::shared_ptr<Transport> inner_;
  const std::string server_;
};

StatusOr<std::shared_ptr<Transport>> Control(const GlobalOptions& options,
                                             const BearerToken& token) {
  QUIRE_ASSIGN_OR_RETURN(
      std::shared_ptr<Transport> grpc,
      ConnectGrpc(options.server,
                  {.max_message_bytes = options.max_message_bytes, .token = token}));
  return std::make_shared<AdvisingTransport>(std::move(grpc), options.server);
}

/// Precedes a value that begins with a bracket while CLI11 parses it. CLI11 takes "[a,b]" for two
/// values, and names of documents may look like that.
constexpr char kLiteral = '\x1f';

std::vector<std::string> Protect(std::span<const char* const> arguments) {
  std::vector<std::string> words;
  for (const char* const argument : arguments) {
    words.emplace_back(argument);
    if (words.back().starts_with('[')) words.back().insert(0, 1, kLiteral);
  }
  return words;
}

std::string Unprotect(std::string value) {
  if (value.starts_with(kLiteral)) value.erase(0, 1);
  return value;
}

void UnprotectOptionsOf(CLI::App& app) {
  for (CLI::Option* const option : app.get_options()) option->transform(Unprotect);
  for (CLI::App* const command : app.get_subcommands(nullptr)) UnprotectOptionsOf(*command);
}

StatusOr<std::unique_ptr<Client>> MakeClient(const GlobalOptions& options,
                                             std::shared_ptr<Transport> control,
                                             std::shared_ptr<Transport> data, TimePoint limit,
                                             Duration unreachable_for, Health* health = nullptr) {
  return Client::Create({.transport = std::move(control),
                         .data_transport = std::move(data),
                         .tenant = options.tenant_name(),
                         .deadline = options.call_timeout(),
                         .limit = limit,
                         .retry = {.unreachable_for = unreachable_for},
                         .health = health});
}

struct Patience {
  TimeoutOf timeout;
  Duration unreachable_for;
  Health* health;
};

StatusOr<SessionClient> ConnectSessions(const CommandContext& context, const NodeToConnect& node,
                                        const DataConnector& connect_data,
                                        const std::string& transport, const Patience& patience) {
  const GlobalOptions& options = context.options;
  const TimePoint limit = context.LimitOf(patience.timeout);
  QUIRE_ASSIGN_OR_RETURN(const BearerToken token, context.Token());
  // A server that starts again meanwhile is waited for; how pages come is decided once.
  QUIRE_ASSIGN_OR_RETURN(
      auto first, MakeClient(options, node.control, nullptr, limit, patience.unreachable_for));
  QUIRE_RETURN_IF_ERROR(first->Stats().status());
  QUIRE_ASSIGN_OR_RETURN(DataPath path,
                         ChooseDataPath(connect_data,
                                        {.transport = transport,
                                         .tenant = options.tenant_name(),
                                         .token = token,
                                         .control_address = node.address,
                                         .max_message_bytes = options.max_message_bytes,
                                         .limit = limit},
                                        context.err));
  QUIRE_ASSIGN_OR_RETURN(auto client, MakeClient(options, node.control, path.transport, limit,
                                                 patience.unreachable_for, patience.health));
  return SessionClient{std::move(client), std::move(path)};
}

}  // namespace

Duration GlobalOptions::call_timeout() const {
  const std::chrono::duration<double> seconds(timeout_seconds.value_or(kDefaultCallSeconds));
  return std::chrono::duration_cast<Duration>(seconds);
}

Duration GlobalOptions::unreachable_for() const {
  return timeout_seconds ? call_timeout() : kDefaultPatience;
}

TimePoint GlobalOptions::limit() const {
  return timeout_seconds ? start + call_timeout() : TimePoint::max();
}

StatusOr<BearerToken> CommandContext::Token() const {
  if (!options.token_file.empty()) {
    auto token = BearerToken::ReadFile(options.token_file);
    if (!token.ok()) return Annotate(token.status(), "--token-file");
    return token;
  }
  if (environment_token.empty()) return BearerToken();
  auto token = BearerToken::Make(environment_token);
  if (!token.ok()) return Annotate(token.status(), "QUIRE_TOKEN");
  return token;
}

StatusOr<std::unique_ptr<Client>> CommandContext::ConnectToWatch(Duration patience) const {
  QUIRE_ASSIGN_OR_RETURN(const BearerToken token, Token());
  QUIRE_ASSIGN_OR_RETURN(auto control, Control(options, token));
  GlobalOptions quick = options;
  quick.timeout_seconds = std::chrono::duration<double>(patience).count();
  return MakeClient(quick, std::move(control), nullptr, TimePoint::max(), patience);
}

StatusOr<std::unique_ptr<Client>> CommandContext::Connect() const {
  QUIRE_ASSIGN_OR_RETURN(const BearerToken token, Token());
  QUIRE_ASSIGN_OR_RETURN(auto control, Control(options, token));
  return MakeClient(options, std::move(control), nullptr, LimitOf(TimeoutOf::kCommand),
                    options.unreachable_for());
}

StatusOr<SessionClient> CommandContext::ConnectForSessions(const std::string& transport,
                                                           TimeoutOf timeout,
                                                           Health* health) const {
  QUIRE_ASSIGN_OR_RETURN(const BearerToken token, Token());
  QUIRE_ASSIGN_OR_RETURN(auto control, Control(options, token));
  return ConnectForSessionsOver(control, ConnectorOver(control), transport, timeout, health);
}

TimePoint CommandContext::LimitOf(TimeoutOf timeout) const {
  return timeout == TimeoutOf::kCommand ? options.limit() : TimePoint::max();
}

StatusOr<SessionClient> CommandContext::ConnectForSessionsOver(std::shared_ptr<Transport> control,
                                                               const DataConnector& connect_data,
                                                               const std::string& transport,
                                                               TimeoutOf timeout,
                                                               Health* health) const {
  return ConnectSessions(*this, {options.server, std::move(control)}, connect_data, transport,
                         {timeout, options.unreachable_for(), health});
}

StatusOr<std::unique_ptr<Client>> CommandContext::ConnectToNode(const NodeToConnect& node,
                                                                const std::string& transport,
                                                                TimeoutOf timeout) const {
  QUIRE_ASSIGN_OR_RETURN(SessionClient connected,
                         ConnectSessions(*this, node, ConnectorOver(node.control), transport,
                                         {timeout, ClusterClient::kNodeUnreachableFor, nullptr}));
  return std::move(connected.client);
}

Status SayNoDocuments(const std::string& collection, const CommandContext& context) {
  context.err << "no documents of tenant " << context.options.tenant_name();
  if (!collection.empty()) context.err << " in collection " << collection;
  context.err << '\n';
  return OkStatus();
}

Status Reported(const Status& failure) {
  Status marked = failure;
  marked.SetMark(kReported, "");
  return marked;
}

Commands::Commands(std::ostream& out, std::ostream& err, bool out_is_terminal,
                   std::string environment_token)
    : out_(out),
      err_(err),
      out_is_terminal_(out_is_terminal),
      environment_token_(std::move(environment_token)),
      app_(std::make_unique<CLI::App>(kDescription, "quire")) {
  app_->add_option("--server", options_.server,
                   "Address of the server; put, ask, stat and worker take several nodes of a "
                   "cluster, divided by commas")
      ->capture_default_str();
  app_->add_option("--tenant", options_.tenant, "Tenant whose data is meant")
      ->default_str(options_.tenant_name());
  app_->add_option("--token-file", options_.token_file,
                   "File of the token that proves the tenant, where the server asks for one "
                   "(quired --tenant-tokens); or set QUIRE_TOKEN to the token")
      ->type_name("FILE");
  app_->add_flag("--json", options_.json, "Print one line of JSON instead of tables");
  app_->add_option("--timeout", options_.timeout_seconds,
                   "Seconds that the command may take from its start to the last answer of the "
                   "server, retries included (of `quire worker`: each call to the store). Not "
                   "given: 60 for each call, and 5 for a server that cannot be reached")
      ->check(CLI::Range(0.001, 86400.0));
  app_->add_option("--max-message-bytes", options_.max_message_bytes,
                   "Largest request and reply; the server's own limit counts too (e.g. 256MiB)")
      ->transform(CLI::AsSizeValue(true).description(""))
      ->type_name("SIZE")
      ->check(CLI::Range(uint64_t{64} << 10, wire::kLargestMaxMessageBytes))
      ->capture_default_str();
  app_->require_subcommand(1);
  app_->get_formatter()->column_width(36);
  app_->footer(
      "Every command has its own help with examples: quire COMMAND --help\n"
      "A server that asks who calls: quire --tenant team-a --token-file team-a.token ls\n"
      "Traces: OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4317 quire ask ...  sends them there\n"
      "Exit codes: 0 done, also where the answer is an empty list; 1 failed, also where what was\n"
      "given is empty; 2 wrong usage.");
}

Commands::~Commands() = default;

CLI::App& Commands::AddApp(const Spec& spec, CLI::App* parent) {
  CLI::App& command =
      *(parent != nullptr ? parent : app_.get())->add_subcommand(spec.name, spec.summary);
  command.footer("Examples:\n" + spec.examples);
  command.fallthrough();  // Global options may stand after the command.
  if (spec.calls_no_server) {
    for (const char* const option : kOptionsOfCalls) command.excludes(app_->get_option(option));
  }
  return command;
}

CLI::App& Commands::Add(const Spec& spec, Body body, CLI::App* parent) {
  CLI::App& command = AddApp(spec, parent);
  const std::string of_group = parent != nullptr ? parent->get_name() + " " : "";
  const Chosen chosen{std::move(body), "quire " + of_group + spec.name, spec.service};
  command.final_callback([this, chosen] {
    if (!chosen_) chosen_ = chosen;  // A subcommand's callback runs before its parent's.
  });
  return command;
}

CLI::App& Commands::AddGroup(const Spec& spec) {
  CLI::App& command = AddApp(spec, nullptr);
  command.require_subcommand(1);
  return command;
}

void Commands::AddProgram(const Spec& spec, const std::string& program) {
  Add(spec, [this, program](const CommandContext&) {
    return RunProgramBeside(program, arguments_);
  }).prefix_command();
  programs_[spec.name] = program;
}

const std::string* Commands::OtherProgram() const {
  const auto command = std::ranges::find_if_not(
      arguments_, [](const char* word) { return std::string_view(word).starts_with('-'); });
  if (command == arguments_.end()) return nullptr;
  const auto found = programs_.find(std::string_view(*command));
  return found != programs_.end() ? &found->second : nullptr;
}

int Commands::Run(int argc, const char* const* argv) {
  arguments_ = std::span(argv, static_cast<size_t>(argc)).subspan(1);
  if (const std::string* const program = OtherProgram()) {
    return Report(RunProgramBeside(*program, arguments_));
  }
  chosen_.reset();
  options_.start = SystemClock().Now();
  std::vector<std::string> words = Protect(arguments_);
  std::ranges::reverse(words);  // As CLI11 takes them.
  UnprotectOptionsOf(*app_);
  try {
    app_->parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    return Refuse(error);
  }
  const Status given = CheckGiven(*app_, may_be_empty_, nullptr);
  if (!given.ok()) return Report(given);
  return Report(RunChosen());
}

Status Commands::RunChosen() {
  std::unique_ptr<Tracing> tracing;
  const std::string& service = chosen_->service;
  if (environment_) {
    QUIRE_ASSIGN_OR_RETURN(tracing,
                           Tracing::Start(service.empty() ? "quire" : service, environment_));
  }
  const CommandContext context{options_,           out_,         err_, out_is_terminal_,
                               environment_token_, tracing.get()};
  if (tracing == nullptr || !service.empty()) return chosen_->body(context);
  SpanScope whole(tracing->tracer().Begin(chosen_->name));
  const Status status = chosen_->body(context);
  whole.span().End(status);
  return status;
}

int Commands::Refuse(const CLI::ParseError& error) {
  const bool is_help = error.get_exit_code() == 0;
  options_.json = app_->count("--json") > 0;
  const Status given = is_help ? OkStatus() : CheckGiven(*app_, may_be_empty_, &error);
  if (!given.ok()) return Report(given);
  return app_->exit(error, out_, err_) == 0 ? 0 : kExitUsage;
}

int Commands::Report(const Status& status) {
  if (status.ok()) return 0;
  err_ << "quire: " << Message(status) << '\n';
  if (IsDeadlineExceeded(status)) err_ << "Allow more time with --timeout SECONDS.\n";
  if (options_.json && !status.Mark(kReported).has_value()) PrintJsonLine(out_, ToJson(status));
  return kExitFailure;
}

}  // namespace quire::cli
