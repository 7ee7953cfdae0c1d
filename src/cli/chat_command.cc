// `slotstream chat`: a conversation in the terminal.

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/model_options.h"
#include "cli/reply_printer.h"
#include "cli/sampling_options.h"
#include "engine/engine.h"

namespace slotstream::cli {
namespace {

struct ChatOptions {
  ModelOptions model;
  SamplingOptions sampling;
  std::string system;
};

text::ChatMessage Message(text::Role role, std::string content) {
  text::ChatMessage message;
  message.role = role;
  message.content.push_back({text::ContentItem::Kind::kText, std::move(content)});
  return message;
}

// Lines of standard input. An interrupt while waiting drops the line.
class LineReader {
 public:
  enum class Outcome { kLine, kEnd, kInterrupted };

  Outcome Next(std::string& line) {
    line.clear();
    for (;;) {
      if (const size_t end = buffer_.find('\n'); end != std::string::npos) {
        line = buffer_.substr(0, end);
        buffer_.erase(0, end + 1);
        return Outcome::kLine;
      }
      char chunk[4096];
      const ssize_t count = read(STDIN_FILENO, chunk, sizeof(chunk));
      if (count > 0) {
        buffer_.append(chunk, static_cast<size_t>(count));
      } else if (count < 0 && errno == EINTR) {
        return Outcome::kInterrupted;
      } else {
        line = std::exchange(buffer_, {});
        return line.empty() ? Outcome::kEnd : Outcome::kLine;
      }
    }
  }

 private:
  std::string buffer_;
};

class Conversation {
 public:
  Conversation(const ChatOptions& options, const CLI::App& command, engine::Engine& engine)
      : options_(options), command_(command), engine_(engine) {
    Clear();
  }

  void Clear() {
    chat_ = {};
    ApplyThinking(options_.sampling, chat_);
    if (!options_.system.empty()) {
      chat_.messages.push_back(Message(text::Role::kSystem, options_.system));
    }
  }

  // Asks and prints. After an error or an interrupt the question is taken back or the reply so far
  // stays, so that the conversation can go on.
  void Ask(std::string question, InterruptScope& interrupt) {
    chat_.messages.push_back(Message(text::Role::kUser, std::move(question)));
    engine::Request request;
    request.chat = chat_;
    request.sampling = ToSamplingParams(options_.sampling, command_);
    ReplyPrinter printer(ReplyPrinter::Reasoning::kDimmed);
    engine::RequestObserver observer;
    observer.generation.on_event = [&](const generate::ReplyEvent& event) { printer.Print(event); };
    auto job = engine_.Submit(std::move(request), observer);
    while (!job->WaitForMillis(50)) {
      if (interrupt.interrupted()) job->Cancel();
    }
    auto result = job->Wait();
    printer.Finish();
    if (!result && result.error().code != ErrorCode::kCancelled) {
      fmt::print(stderr, "slotstream: {}\n", result.error().message);
      chat_.messages.pop_back();
      return;
    }
    if (!result) fmt::print(stderr, "[stopped]\n");
    interrupt.Reset();
    text::ChatMessage reply = Message(text::Role::kAssistant, printer.text());
    reply.reasoning = printer.reasoning();
    chat_.messages.push_back(std::move(reply));
  }

 private:
  const ChatOptions& options_;
  const CLI::App& command_;
  engine::Engine& engine_;
  text::ChatRequest chat_;
};

Result<int> Chat(const ChatOptions& options, const CLI::App& command) {
  SS_ASSIGN_OR_RETURN(engine::LoadOptions load, ToLoadOptions(options.model, command));
  load.wishes.prefix_cache_bytes = std::nullopt;  // what was said is not read again
  SS_ASSIGN_OR_RETURN(std::unique_ptr<engine::LoadedModel> loaded, LoadModel(load));
  SS_RETURN_IF_ERROR(loaded->tokenizer());
  engine::Engine engine(std::move(loaded), {.log = PrintNote});
  Conversation conversation(options, command, engine);
  InterruptScope interrupt;
  LineReader lines;
  const bool terminal = isatty(STDIN_FILENO) == 1;
  if (terminal) {
    fmt::print(stderr,
               "Type a message. /clear starts over, /exit or Ctrl-D leaves, Ctrl-C stops a "
               "reply.\n");
  }
  for (;;) {
    if (terminal) {
      fmt::print(stderr, "> ");
      std::fflush(stderr);
    }
    std::string line;
    const LineReader::Outcome outcome = lines.Next(line);
    if (outcome == LineReader::Outcome::kEnd) break;
    if (outcome == LineReader::Outcome::kInterrupted) {
      interrupt.Reset();
      fmt::print(stderr, "\n(Ctrl-D or /exit leaves)\n");
      continue;
    }
    if (line == "/exit") break;
    if (line == "/clear") {
      conversation.Clear();
      continue;
    }
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    conversation.Ask(std::move(line), interrupt);
  }
  if (terminal) fmt::print(stderr, "\n");
  return 0;
}

}  // namespace

void AddChatCommand(CLI::App& app, Action& action) {
  auto options = std::make_shared<ChatOptions>();
  CLI::App* command = app.add_subcommand("chat", "Talk with the model in the terminal");
  AddModelOptions(*command, options->model);
  command->add_option("--system", options->system, "System message");
  AddSamplingOptions(*command, options->sampling);
  command->callback([options, command, &action] {
    action = [options, command] { return Chat(*options, *command); };
  });
}

}  // namespace slotstream::cli
